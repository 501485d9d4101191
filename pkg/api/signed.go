package api

// Signed is a request that says who makes it: the actor in the audit, or in a history.
type Signed interface{ Sign(actor string) }

// Sign implements Signed.
func (r *JobAccept) Sign(actor string) { r.Actor = actor }

// Sign implements Signed.
func (r *ReviewDecide) Sign(actor string) { r.Actor = actor }

// Sign implements Signed.
func (r *ReviewEdit) Sign(actor string) { r.Actor = actor }

// Sign implements Signed.
func (r *ReviewPrune) Sign(actor string) { r.Actor = actor }

// Sign implements Signed.
func (r *ReviewConvert) Sign(actor string) { r.Actor = actor }

// Sign implements Signed.
func (r *ReviewUndo) Sign(actor string) { r.Actor = actor }

// Sign implements Signed.
func (r *SchemaPut) Sign(actor string) { r.Actor = actor }

// Sign implements Signed.
func (r *SettingsPut) Sign(actor string) { r.Actor = actor }
