package checkout

import "context"

// Each call of the three services has a key. A call that comes again under a key
// that a service has seen changes nothing and answers as before: so a step that a
// crash cut off can be run again.

// Stock keeps goods for orders.
type Stock interface {
	Hold(ctx context.Context, key, sku string) (Hold, error)
	Release(ctx context.Context, key string, h Hold) error
}

// Bank moves money.
type Bank interface {
	Charge(ctx context.Context, key, card string, cents int) (Payment, error)
	Refund(ctx context.Context, key string, p Payment) error
	Void(ctx context.Context, key, orderID string) error // whatever was charged for the order, if anything was
}

// Post brings parcels.
type Post interface {
	Ship(ctx context.Context, key string, p Parcel) (Label, error)
	Recall(ctx context.Context, key string, l Label) error
}
