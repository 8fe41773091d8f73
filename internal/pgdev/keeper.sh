# Keeps one PostgreSQL server for as long as whoever started this script lives.
# Commands come as lines on standard input; each is answered by one line with
# its exit code. The end of the input stops the server. It comes when the owner
# closes its end of the pipe and also when the owner is killed, which is why the
# server is not the owner's own child.
#
# usage: sh keeper.sh FOLDER BIN [temporary]
#        FOLDER has password and server.conf; a temporary one is removed at the end

# The script runs in a session of its own; ignoring these as well keeps a signal
# to everybody, or an answer that nobody reads any more, from ending it early.
trap '' HUP INT QUIT TERM PIPE

folder=$1 bin=$2 temporary=$3
data=$folder/data

control() {
	"$bin/pg_ctl" -D "$data" -w "$@" </dev/null >"$folder/command.log" 2>&1
}

running() {
	"$bin/pg_ctl" -D "$data" status >/dev/null 2>&1
}

# A cluster appears under its name only when it is complete.
init() {
	rm -rf "$data.new" &&
	"$bin/initdb" -D "$data.new" ${temporary:+--no-sync} --username=postgres --pwfile="$folder/password" \
		--auth=scram-sha-256 --encoding=UTF8 --locale=C </dev/null >"$folder/command.log" 2>&1 &&
	echo "include '../server.conf'" >>"$data.new/postgresql.conf" &&
	mv "$data.new" "$data"
}

end() {
	if running; then
		control -m fast -t 20 stop ||
		control -m immediate -t 10 stop ||
		{ read -r pid <"$data/postmaster.pid" && kill -KILL "$pid"; }
	fi
	if [ -n "$temporary" ]; then
		cd /
		# Backends of a killed server may still be writing for a moment.
		rm -rf "$folder" || { sleep 2; rm -rf "$folder"; }
	fi
}

# A server that somebody else started on this data is not ours to stop.
if running; then
	echo busy
	exit 1
fi
echo 0

while read -r command mode; do
	case $command in
	init) init ;;
	start) control -l "$folder/server.log" -t 60 start ;;
	stop) control -m "$mode" -t 60 stop ;;
	*) false ;;
	esac
	echo $?
done
end
