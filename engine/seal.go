package engine

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
)

// envelope is what is stored of a value that a codec has changed: still JSON,
// with nothing to be read in it.
type envelope struct {
	Codec string `json:"$codec"`
}

// seal is a value in its stored form: as it is, or changed by the codec.
func (e *Engine) seal(plain json.RawMessage) (sealed json.RawMessage, err error) {
	if e.config.Codec == nil || plain == nil {
		return plain, nil
	}
	err = protect(func() error {
		changed, err := e.config.Codec.Encode(context.Background(), plain)
		if err != nil {
			return err
		}
		sealed, err = json.Marshal(envelope{base64.StdEncoding.EncodeToString(changed)})
		return err
	})
	if err != nil {
		return nil, &EncodingError{Reason: "the codec refused it: " + textOf(err)}
	}
	return sealed, nil
}

// unseal reads what seal wrote.
func (e *Engine) unseal(sealed json.RawMessage) (plain json.RawMessage, err error) {
	if e.config.Codec == nil || sealed == nil {
		return sealed, nil
	}
	err = protect(func() error {
		var v envelope
		if err := json.Unmarshal(sealed, &v); err != nil || v.Codec == "" {
			return fmt.Errorf("it was stored without a codec")
		}
		changed, err := base64.StdEncoding.DecodeString(v.Codec)
		if err != nil {
			return err
		}
		plain, err = e.config.Codec.Decode(context.Background(), changed)
		return err
	})
	if err != nil {
		return nil, &EncodingError{Reason: "the codec could not read it: " + textOf(err)}
	}
	return plain, nil
}
