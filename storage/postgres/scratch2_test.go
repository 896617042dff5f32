package postgres
import ("testing";"github.com/seed-72ea4aab/vault/storage";"github.com/google/uuid")
func BenchmarkGather(b *testing.B) {
	s := &Store{}
	tenant := storage.ID(uuid.Must(uuid.NewV7()))
	var batch []*pending
	for range 60 { batch = append(batch, &pending{change: scratchSample(tenant), class: creates}) }
	s.sets.learn(batch[0].change)
	b.ReportAllocs()
	for b.Loop() { g := s.gather(batch); g.trusting(3) }
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*60), "ns/token")
}
