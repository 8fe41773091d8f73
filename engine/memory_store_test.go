package engine_test

import (
	"slices"
	"testing"

	"github.com/pgreactor/reactor/engine"
	"github.com/pgreactor/reactor/engine/storetest"
)

// spec: K-413
func TestMemoryStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(*testing.T) engine.Store { return engine.NewMemoryStore() })
}

// TestStoreProofs says which test of the suite proves which requirement, where
// the requirement is one of the store alone, and that the test is there.
func TestStoreProofs(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"broken_dispatcher_leaves_nothing", // spec: C-637

		"create_keeps_the_header", // spec: K-415, C-681
		"create_owned",            // spec: K-349
		"create_twice_is_stale",   // spec: K-342, K-356

		"claim_owns",                 // spec: C-194
		"claim_twice_by_one_process", // spec: C-624
		"claim_sees_the_last_save",   // spec: K-408, K-633

		"takeover_of_a_lapsed_owner",              // spec: K-405
		"takeover_of_a_process_without_a_row",     // spec: K-813
		"takeover_refused_while_the_lease_lives",  // spec: K-301, C-630
		"takeover_races_a_save",                   // spec: K-339
		"process_lease_seen_at_a_run",             // spec: K-335
		"process_beat_touches_no_run",             // spec: C-980
		"recovery_writes_no_state",                // spec: K-816, K-819
		"recovery_wakes_runs_of_a_lapsed_process", // spec: K-301
		"wake_up_too_many_is_harmless",            // spec: K-306

		"save_counts_versions",               // spec: K-334
		"save_landed_before",                 // spec: C-976
		"save_landed_before_a_release",       // spec: C-976
		"save_one_of_two_wins",               // spec: K-337
		"fence_other_token_is_lost",          // spec: K-331, K-337
		"fence_of_a_released_run_is_lost",    // spec: K-331
		"fence_lapsed_lease_is_lost",         // spec: K-338, K-406
		"fence_older_version_is_stale",       // spec: K-340, K-407
		"fence_judges_token_and_lease_first", // spec: K-338
		"fence_refused_save_leaves_nothing",  // spec: K-345, C-975

		"status_transitions",          // spec: K-417
		"status_transitions_refused",  // spec: K-417, C-190
		"status_final_ends_ownership", // spec: K-323
		"status_final_never_changes",  // spec: C-880
		"release_due_now_wakes",       // spec: K-812
		"release_due_later",           // spec: K-354
		"release_blocked",             // spec: K-368

		"node_kept_whole",        // spec: C-681
		"values_byte_for_byte",   // spec: C-681
		"values_null_and_absent", // spec: C-681
		"texts_exact",            // spec: C-681

		"sweep_wakes_due_runs_once",                      // spec: K-307
		"sweep_pauses_grow",                              // spec: K-307
		"sweep_leaves_alone",                             // spec: K-305, C-630
		"sweep_in_batches",                               // spec: K-308
		"sweep_oldest_due_first",                         // spec: K-308, K-912
		"sweep_by_six_at_once",                           // spec: C-1000
		"recovery_wakes_runs_of_a_process_without_a_row", // spec: C-1000

		"list_newest_first",          // spec: K-419
		"list_by_pages",              // spec: K-419
		"list_pages_while_runs_come", // spec: K-419
		"list_broken_cursor",         // spec: K-419
	} {
		if !slices.Contains(storetest.Names(), name) {
			t.Errorf("the suite has no test %s", name)
		}
	}
}
