-- What a sweep finds dead jobs by.
CREATE INDEX jobs_dead ON jobs (run_at) WHERE dead;
