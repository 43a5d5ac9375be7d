BEGIN TRANSACTION;
CREATE TABLE acceptance (
  id INTEGER PRIMARY KEY,
  at_us INTEGER NOT NULL CHECK (typeof(at_us) = 'integer'),
  accepted_by TEXT NOT NULL CHECK (typeof(accepted_by) = 'text'),
  reason TEXT NOT NULL CHECK (typeof(reason) = 'text')
);
INSERT INTO "acceptance" VALUES(1,1795917600000000,'gpumond','first seen');
INSERT INTO "acceptance" VALUES(2,1795917600000000,'gpumond','first seen');
CREATE TABLE accepted_gpu (
  acceptance INTEGER NOT NULL REFERENCES acceptance (id) ON DELETE CASCADE,
  number INTEGER NOT NULL CHECK (typeof(number) = 'integer'),
  uuid TEXT NOT NULL CHECK (typeof(uuid) = 'text'),
  pci_bus_id TEXT NOT NULL CHECK (typeof(pci_bus_id) = 'text'),
  name TEXT NOT NULL CHECK (typeof(name) = 'text'),
  PRIMARY KEY (acceptance, number),
  UNIQUE (acceptance, uuid)
) WITHOUT ROWID;
INSERT INTO "accepted_gpu" VALUES(1,0,'GPU-a','0000:01:00.0','NVIDIA H200');
INSERT INTO "accepted_gpu" VALUES(2,0,'GPU-a','0000:01:00.0','NVIDIA H200');
CREATE TABLE assessment (
  run INTEGER PRIMARY KEY REFERENCES run (number) ON DELETE CASCADE,
  score REAL CHECK (score IS NULL OR (typeof(score) = 'real' AND score BETWEEN -1.7976931348623157e308 AND 1.7976931348623157e308)),
  document TEXT NOT NULL CHECK (typeof(document) = 'text')
);
INSERT INTO "assessment" VALUES(1,0.999,'{"verdict":"ok","reason":"within_noise","detail":"99.9% of the baseline","score":0.999,"basis":"baseline","statistic":null,"shape":[]}');
CREATE TABLE baseline_decision (
  id INTEGER PRIMARY KEY,
  kind TEXT NOT NULL CHECK (kind IN ('accept', 'reject', 'reset')),
  sweep TEXT NOT NULL CHECK (typeof(sweep) = 'text'),
  engine TEXT NOT NULL CHECK (typeof(engine) = 'text'),
  gpu_set TEXT NOT NULL CHECK (typeof(gpu_set) = 'text'),
  at_us INTEGER NOT NULL CHECK (typeof(at_us) = 'integer'),
  decided_by TEXT NOT NULL CHECK (typeof(decided_by) = 'text'),
  reason TEXT NOT NULL CHECK (typeof(reason) = 'text'),
  tracks_before TEXT NOT NULL CHECK (typeof(tracks_before) = 'text'),
  undone_at_us INTEGER CHECK (typeof(undone_at_us) IN ('integer', 'null')),
  undone_by TEXT NOT NULL CHECK (typeof(undone_by) = 'text'),
  undone_reason TEXT NOT NULL CHECK (typeof(undone_reason) = 'text')
);
INSERT INTO "baseline_decision" VALUES(1,'accept','nightly','nccl-tests','all',1795917600000000,'root','commissioned','[[{"collective":"all_reduce","datatype":"float","redop":"sum","ranks":2,"parameters_hash":"p1"},{"baseline":{"busbw":{"67108864":267300000000.0},"seconds":{"8":1e-05},"sigma":0.002,"latency_sigma":0.1,"night_count":21,"since":"2026-11-29T02:00:00Z","fingerprint":{"driver":"580"},"transport":"","golden":{},"nights":[],"scores":[],"origin":"learned"},"candidate":null,"rejected":{},"bandwidth":{"recent":[],"cusum":0.0,"cusum_since":null,"alarm":null,"alarm_z":0.0,"alarm_since":null,"alarm_at":null,"good_nights":0,"is_provisional":false},"latency":{"recent":[],"cusum":0.0,"cusum_since":null,"alarm":null,"alarm_z":0.0,"alarm_since":null,"alarm_at":null,"good_nights":0,"is_provisional":false},"fingerprint":{},"changes":[],"transport":"","results":[],"failures":0,"last_at":null}]]',NULL,'','');
CREATE TABLE counter (
  name TEXT NOT NULL CHECK (typeof(name) = 'text'),
  labels TEXT NOT NULL CHECK (typeof(labels) = 'text'),
  value REAL NOT NULL CHECK (typeof(value) = 'real' AND value BETWEEN -1.7976931348623157e308 AND 1.7976931348623157e308),
  PRIMARY KEY (name, labels)
) WITHOUT ROWID;
INSERT INTO "counter" VALUES('sweep_preemptions','{"sweep": "nightly"}',1.0);
INSERT INTO "counter" VALUES('topology_changes','{"kind": "nvlink_down", "level": "critical"}',1.0);
CREATE TABLE finding (
  id INTEGER PRIMARY KEY,
  kind TEXT NOT NULL CHECK (typeof(kind) = 'text'),
  level TEXT NOT NULL CHECK (typeof(level) = 'text'),
  subject TEXT NOT NULL CHECK (typeof(subject) = 'text'),
  detail TEXT NOT NULL CHECK (typeof(detail) = 'text'),
  evidence TEXT NOT NULL CHECK (typeof(evidence) = 'text'),
  first_at_us INTEGER NOT NULL CHECK (typeof(first_at_us) = 'integer'),
  last_at_us INTEGER NOT NULL CHECK (typeof(last_at_us) = 'integer'),
  closed_at_us INTEGER CHECK (typeof(closed_at_us) IN ('integer', 'null'))
, confirmed_at_us INTEGER CHECK (typeof(confirmed_at_us) IN ('integer', 'null')), collectives TEXT NOT NULL CHECK (typeof(collectives) = 'text') DEFAULT '[]', cause TEXT NOT NULL CHECK (typeof(cause) = 'text') DEFAULT '[]');
INSERT INTO "finding" VALUES(1,'p2p_path','critical','all','it hangs with P2P','futex_do_wait',1795917600000000,1795917600000000,NULL,NULL,'[]','[]');
CREATE TABLE fingerprint (
  id INTEGER PRIMARY KEY,
  document TEXT NOT NULL UNIQUE CHECK (typeof(document) = 'text')
);
INSERT INTO "fingerprint" VALUES(1,'{"driver": "580"}');
CREATE TABLE judge_scope (
  sweep TEXT NOT NULL CHECK (typeof(sweep) = 'text'),
  engine TEXT NOT NULL CHECK (typeof(engine) = 'text'),
  gpu_set TEXT NOT NULL CHECK (typeof(gpu_set) = 'text'),
  first_run INTEGER NOT NULL CHECK (typeof(first_run) = 'integer'),
  findings_before TEXT NOT NULL CHECK (typeof(findings_before) = 'text'),
  PRIMARY KEY (sweep, engine, gpu_set)
) WITHOUT ROWID;
INSERT INTO "judge_scope" VALUES('nightly','nccl-tests','all',2,'[]');
CREATE TABLE judge_track (
  sweep TEXT NOT NULL CHECK (typeof(sweep) = 'text'),
  engine TEXT NOT NULL CHECK (typeof(engine) = 'text'),
  gpu_set TEXT NOT NULL CHECK (typeof(gpu_set) = 'text'),
  track_key TEXT NOT NULL CHECK (typeof(track_key) = 'text'),
  track_before TEXT CHECK (typeof(track_before) IN ('text', 'null')),
  track TEXT NOT NULL CHECK (typeof(track) = 'text'),
  PRIMARY KEY (sweep, engine, gpu_set, track_key)
) WITHOUT ROWID;
INSERT INTO "judge_track" VALUES('nightly','nccl-tests','all','{"collective":"all_reduce","datatype":"float","redop":"sum","ranks":2,"parameters_hash":"p1"}','{"baseline":{"busbw":{"67108864":267300000000.0},"seconds":{"8":1e-05},"sigma":0.002,"latency_sigma":0.1,"night_count":21,"since":"2026-11-29T02:00:00Z","fingerprint":{"driver":"580"},"transport":"","golden":{},"nights":[],"scores":[],"origin":"learned"},"candidate":null,"rejected":{},"bandwidth":{"recent":[],"cusum":0.0,"cusum_since":null,"alarm":null,"alarm_z":0.0,"alarm_since":null,"alarm_at":null,"good_nights":0,"is_provisional":false},"latency":{"recent":[],"cusum":0.0,"cusum_since":null,"alarm":null,"alarm_z":0.0,"alarm_since":null,"alarm_at":null,"good_nights":0,"is_provisional":false},"fingerprint":{},"changes":[],"transport":"","results":[],"failures":0,"last_at":null}','{"baseline":{"busbw":{"67108864":267300000000.0},"seconds":{"8":1e-05},"sigma":0.002,"latency_sigma":0.1,"night_count":21,"since":"2026-11-29T02:00:00Z","fingerprint":{"driver":"580"},"transport":"","golden":{},"nights":[],"scores":[],"origin":"learned"},"candidate":null,"rejected":{},"bandwidth":{"recent":[],"cusum":0.0,"cusum_since":null,"alarm":null,"alarm_z":0.0,"alarm_since":null,"alarm_at":null,"good_nights":0,"is_provisional":false},"latency":{"recent":[],"cusum":0.0,"cusum_since":null,"alarm":null,"alarm_z":0.0,"alarm_since":null,"alarm_at":null,"good_nights":0,"is_provisional":false},"fingerprint":{},"changes":[],"transport":"","results":[],"failures":0,"last_at":null}');
CREATE TABLE kernel_log_cursor (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  cursor TEXT NOT NULL CHECK (typeof(cursor) = 'text')
);
INSERT INTO "kernel_log_cursor" VALUES(1,'s=1;i=1');
CREATE TABLE kernel_tally (
  kind TEXT NOT NULL CHECK (kind IN ('xid', 'sxid', 'aer')),
  pci_bus_id TEXT NOT NULL CHECK (typeof(pci_bus_id) = 'text'),
  code TEXT NOT NULL CHECK (typeof(code) = 'text'),
  level TEXT NOT NULL CHECK (level IN ('info', 'warning', 'critical')),
  count INTEGER NOT NULL CHECK (typeof(count) = 'integer'),
  first_at_us INTEGER NOT NULL CHECK (typeof(first_at_us) = 'integer'),
  last_at_us INTEGER NOT NULL CHECK (typeof(last_at_us) = 'integer'),
  detail TEXT NOT NULL CHECK (typeof(detail) = 'text'),
  PRIMARY KEY (kind, pci_bus_id, code)
);
INSERT INTO "kernel_tally" VALUES('xid','0000:3b:00.0','79','critical',2,1795917600000000,1795917600000000,'fallen off the bus');
CREATE TABLE pause (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  at_us INTEGER NOT NULL CHECK (typeof(at_us) = 'integer'),
  paused_by TEXT NOT NULL CHECK (typeof(paused_by) = 'text'),
  reason TEXT NOT NULL CHECK (typeof(reason) = 'text')
);
INSERT INTO "pause" VALUES(1,1795917600000000,'root','maintenance');
CREATE TABLE point (
  run INTEGER NOT NULL REFERENCES run (number) ON DELETE CASCADE,
  position INTEGER NOT NULL CHECK (typeof(position) = 'integer'),
  series INTEGER NOT NULL REFERENCES series (id),
  time_seconds REAL NOT NULL CHECK (typeof(time_seconds) = 'real' AND time_seconds BETWEEN -1.7976931348623157e308 AND 1.7976931348623157e308),
  algbw_bytes_per_second REAL NOT NULL CHECK (typeof(algbw_bytes_per_second) = 'real' AND algbw_bytes_per_second BETWEEN -1.7976931348623157e308 AND 1.7976931348623157e308),
  busbw_bytes_per_second REAL NOT NULL CHECK (typeof(busbw_bytes_per_second) = 'real' AND busbw_bytes_per_second BETWEEN -1.7976931348623157e308 AND 1.7976931348623157e308),
  wrong_elements INTEGER CHECK (typeof(wrong_elements) IN ('integer', 'null')),
  PRIMARY KEY (run, position)
) WITHOUT ROWID;
INSERT INTO "point" VALUES(1,0,1,0.0002511,267300000000.0,267300000000.0,0);
INSERT INTO "point" VALUES(1,1,2,0.0002511,267300000000.0,267300000000.0,0);
CREATE TABLE request (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  kind TEXT NOT NULL CHECK (typeof(kind) = 'text'),
  arguments TEXT NOT NULL CHECK (typeof(arguments) = 'text'),
  requested_by TEXT NOT NULL CHECK (typeof(requested_by) = 'text'),
  at_us INTEGER NOT NULL CHECK (typeof(at_us) = 'integer'),
  state TEXT NOT NULL CHECK (state IN ('waiting', 'claimed', 'done', 'failed')),
  answer TEXT NOT NULL CHECK (typeof(answer) = 'text'),
  finished_at_us INTEGER CHECK (typeof(finished_at_us) IN ('integer', 'null'))
);
INSERT INTO "request" VALUES(1,'pause','{"until": "2026-11-29T02:00:00+00:00"}','root',1795917600000000,'waiting','',NULL);
CREATE TABLE run (
  number INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE CHECK (typeof(id) = 'text'),
  sweep_id TEXT NOT NULL REFERENCES sweep (id) ON DELETE CASCADE,
  sweep TEXT NOT NULL CHECK (typeof(sweep) = 'text'),
  engine TEXT NOT NULL CHECK (typeof(engine) = 'text'),
  gpu_set TEXT NOT NULL CHECK (typeof(gpu_set) = 'text'),
  gpu_uuids TEXT NOT NULL CHECK (typeof(gpu_uuids) = 'text'),
  collective TEXT NOT NULL CHECK (typeof(collective) = 'text'),
  parameters_hash TEXT NOT NULL CHECK (typeof(parameters_hash) = 'text'),
  command TEXT NOT NULL CHECK (typeof(command) = 'text'),
  environment TEXT NOT NULL CHECK (typeof(environment) = 'text'),
  started_at_us INTEGER NOT NULL CHECK (typeof(started_at_us) = 'integer'),
  pid INTEGER CHECK (typeof(pid) IN ('integer', 'null')),
  start_ticks INTEGER CHECK (typeof(start_ticks) IN ('integer', 'null')),
  ended_at_us INTEGER CHECK (typeof(ended_at_us) IN ('integer', 'null')),
  duration_seconds REAL CHECK (duration_seconds IS NULL OR (typeof(duration_seconds) = 'real' AND duration_seconds BETWEEN -1.7976931348623157e308 AND 1.7976931348623157e308)),
  cause TEXT,
  exit_status INTEGER CHECK (typeof(exit_status) IN ('integer', 'null')),
  outcome TEXT NOT NULL CHECK (typeof(outcome) = 'text'),
  verdict TEXT NOT NULL CHECK (typeof(verdict) = 'text'),
  reason TEXT NOT NULL CHECK (typeof(reason) = 'text'),
  detail TEXT NOT NULL CHECK (typeof(detail) = 'text'),
  tool_version TEXT NOT NULL CHECK (typeof(tool_version) = 'text'),
  library_version TEXT NOT NULL CHECK (typeof(library_version) = 'text')
, purpose TEXT NOT NULL CHECK (typeof(purpose) = 'text') DEFAULT 'measurement', watch TEXT CHECK (typeof(watch) IN ('text', 'null')), transport TEXT CHECK (typeof(transport) IN ('text', 'null')), fingerprint INTEGER REFERENCES fingerprint (id));
INSERT INTO "run" VALUES(1,'20261129T020000Z-000002','20261129T020000Z-000001','nightly','nccl-tests','all','["GPU-a", "GPU-b"]','all_reduce','p1','["/opt/nccl-tests/all_reduce_perf", "-b", "8"]','{"NCCL_DEBUG": "WARN"}',1795917600000000,NULL,NULL,1795917604000000,4.0,'exited',0,'ok','ok','within_noise','99.9% of the baseline','','','measurement',NULL,NULL,1);
CREATE TABLE run_output (
  run INTEGER PRIMARY KEY REFERENCES run (number) ON DELETE CASCADE,
  size_bytes INTEGER NOT NULL CHECK (typeof(size_bytes) = 'integer'),
  zlib BLOB NOT NULL CHECK (typeof(zlib) = 'blob')
);
INSERT INTO "run_output" VALUES(1,10,X'789C2B4A2C57C82F2D29282D010015E0041C');
CREATE TABLE series (
  id INTEGER PRIMARY KEY,
  sweep TEXT NOT NULL CHECK (typeof(sweep) = 'text'),
  engine TEXT NOT NULL CHECK (typeof(engine) = 'text'),
  gpu_set TEXT NOT NULL CHECK (typeof(gpu_set) = 'text'),
  collective TEXT NOT NULL CHECK (typeof(collective) = 'text'),
  datatype TEXT NOT NULL CHECK (typeof(datatype) = 'text'),
  redop TEXT NOT NULL CHECK (typeof(redop) = 'text'),
  size_bytes INTEGER NOT NULL CHECK (typeof(size_bytes) = 'integer'),
  placement TEXT NOT NULL CHECK (typeof(placement) = 'text'),
  parameters_hash TEXT NOT NULL CHECK (typeof(parameters_hash) = 'text'),
  UNIQUE (sweep, engine, gpu_set, collective, parameters_hash, datatype, redop, size_bytes, placement)
);
INSERT INTO "series" VALUES(1,'nightly','nccl-tests','all','all_reduce','float','sum',8,'out_of_place','p1');
INSERT INTO "series" VALUES(2,'nightly','nccl-tests','all','all_reduce','float','sum',16,'out_of_place','p1');
CREATE TABLE snapshot (
  id INTEGER PRIMARY KEY,
  structure_hash TEXT NOT NULL CHECK (typeof(structure_hash) = 'text'),
  structure BLOB NOT NULL CHECK (typeof(structure) = 'blob'),
  document BLOB NOT NULL CHECK (typeof(document) = 'blob'),
  first_seen_us INTEGER NOT NULL CHECK (typeof(first_seen_us) = 'integer'),
  last_seen_us INTEGER NOT NULL CHECK (typeof(last_seen_us) = 'integer')
);
INSERT INTO "snapshot" VALUES(1,'cf13d6f5cd9de87066a882e62c2fa262eb8efbd83842c174e9c904ea1edf7944',X'789CED574D6FDB300CFD2B85CE69603B8DD7F936A0C3560C6877D92EC320C836930895254F1F698322FF7DA4EDB5693BC8DEA5DB80E49038C9234D3E928FD63DABADDC8265C53D735E786005DB0A1580CD86CF822DCF9379BA7C3B4FCED87EC6D66D7084FEF0F9CBA9A08BCA346DF0C05B61BDF4D2E8435FDA78EE42DB1AEBA126F3AA0D5CAC56524BBF8BDD34395DA48487AAE28DA92182F536C00192B7A06BA9D7E3162B515A594570989C923F027059B322C1E055701E2C0F817E6008DC80507EC31BE16E3AC4F0DD85A6111613D441A9D92FF78BFE8AF84BF63D955C874674EE239C495DC31D2BD2196BA03176378D40B21CF0D34A3380BDF142F172E7C145FCA7799AE469F666912709D9CAF5589956423938804EA8D3A3893696A82AA39D9A12D4D441C118A35A34B150D9D5D7CB8BCB77271FB3A4A3B12B928EA7472CE8AD92FA2646DB3DD605DFA4E3A11D6F50F2D6B595C5D2D088559297C18D6537A0FDAE8D059C21D2B500755F6B2C87E50E2AA3EB9851BECC91147AA1390A877BD655CFF067FB3D75FA61E08C8C8B242D92649EB0EEBF2ECC3568B082BA14C7E92EE273890E6F658D63A6841E69D2A7D011C708A75829291C735DC144E5B1C81A528173598D0E19D646B42D926ECDADE32B2155B053A6E6A9DDF4D119A4AA576BFCB794C6F1F1BAB1B7F9BCEFFDBB7523F906774434AD0EF5A2F99FC110477194C7ADF18A5B233B6E8DF8D6C88E5BE3FFD91AD9716BBCF2D628FFFAD640E0C638DF092B6A5F6582C62F0B14B62AD4624A58E962DE45D59F75F08EA5459D9D62F9F4EC33D8FFB19D344D13E2628DF44AEB8350E38D73035603E2583E4FBB59B0A66A7E17D4CBF5AB65455453BF0A691FCF71270F7B19B7CBC1E382822DC4226257D717EFD9240D4BCFE9AE59A75F16444C2ED8F527D6CF1409F7431752B74C78BA387938993EE652FE4BB98809B990CA561B9CDEEED8E7A402ED797FF4FEF69D7E68821204ED9E27B638D886DCEBADACA560FB9F61235BC5',X'789CED585B6FDA3014FE2B939F297242612D6F933A6DD5A4760FDB1E564D96E3186AD5B7F9428B50FFFB8E435A4271037DDA34118150ECEF1C9FEB77485628D03BAE090D688A4A5C4E4E8AE2A43CFF86CB29C6F0F98906E8D678D85DA13BEE3497809B0C8B21868DCA9840440D2B182E58883608C589E7CCE8DAA3E978880788D94898891A748CCA011246A998D4F9400307590D4A7CB4D6B8C06BF43840B5130BEE087CBD303A411754C6041D9FE161313E1FE25338EC497EBDB99193A272D42DDF2ECF624D7352C5A8F176072F3C59081722951D74709167B0CE30D5D5FD8AF3805C705D1B97B616A216143DF975B81F731B21F6372B64992055F49B144D7101396DBC89B159FDF4F5FB493A43E89A3FA06931409A2ADE3DEBEAC7E5C5E587779F4B9C0DC2A212C6E7A2763E19E62594D0C6111D55B5E55491839A3A4ADED8DF532F8A2B03F90E265049AA65E0BEAB7652E04951BE1F4D30CE9DB0968D9ED73BA2397C0C420A4F03384B5CFAE9E28739090BA9E7DE6F69BEF9950332D1047ECE356F54EB3DD1D90089A20F1DF03803BE1775B82592EA17D1E987BE509C853B6E255DF6070E607A2185BEDB8AC20AA5A5060FBD14ED016D04E90A9C84A5EDD668F93AB2DB023D25B45BBFA7199DDEF2A73221169866CD735D4326E349899B2B23CE9D33AE1B8015628E012B168FBB01CB55C88C564EB02D052D66B446A7BE4F8C2BC5EFB86E9BE62EFA00D6B61D9F089D53091956D4AF83DFDEFBA81410279AEA28E5AE4990C2A828D1A6E67B9A04088834D83D514F9381CE66428BB0EC52073E191559E658376B562487B729ABE0BB669CA86DB35FA92F25E62F91332A7D1F142A41D742CF0F10E18C1D68C71332A3BC47225760C639CE52BCA738975268136A2D54B533F7FE0DAE6CCBCDA890D11D123530C640B3411259E81F854DFA66C6299AD2D7827ACBEE61AE0479269957D536B05B18A9FDB569948D8940A80B62AFA96D651E027E1C6407739919CCD56630977F6F30E7D8F538988F83F938988F83F938988F83F9BF19CCA9B385E43A90F6091A162C156EFD300D6B9DE765201CD799D2922F78F72D00BABABEF898ABFC5DB22DCE720D52369CEB38EDB218BAFEB2ABB30DDC9E7F1C1BEBAB6DEBE93F6F3D64410BD6E6A38EED607D7EC784878963858A9236DD9478D4B35B6803B0EEF10F368D6421',1795917600000000,1795917600000000);
CREATE TABLE snapshot_decision (
  id INTEGER PRIMARY KEY,
  verdict TEXT NOT NULL CHECK (verdict IN ('accepted', 'rejected')),
  at_us INTEGER NOT NULL CHECK (typeof(at_us) = 'integer'),
  decided_by TEXT NOT NULL CHECK (typeof(decided_by) = 'text'),
  reason TEXT NOT NULL CHECK (typeof(reason) = 'text'),
  document BLOB NOT NULL CHECK (typeof(document) = 'blob'),
  acceptance INTEGER REFERENCES acceptance (id),
  undone_at_us INTEGER CHECK (typeof(undone_at_us) IN ('integer', 'null')),
  undone_by TEXT NOT NULL CHECK (typeof(undone_by) = 'text'),
  undone_reason TEXT NOT NULL CHECK (typeof(undone_reason) = 'text'),
  CHECK ((verdict = 'accepted') = (acceptance IS NOT NULL))
);
INSERT INTO "snapshot_decision" VALUES(1,'accepted',1795917600000000,'gpumond','first seen',X'789CED585B6FDA3014FE2B939F297242612D6F933A6DD5A4760FDB1E564D96E3186AD5B7F9428B50FFFB8E435A4271037DDA34118150ECEF1C9FEB77485628D03BAE090D688A4A5C4E4E8AE2A43CFF86CB29C6F0F98906E8D678D85DA13BEE3497809B0C8B21868DCA9840440D2B182E58883608C589E7CCE8DAA3E978880788D94898891A748CCA011246A998D4F9400307590D4A7CB4D6B8C06BF43840B5130BEE087CBD303A411754C6041D9FE161313E1FE25338EC497EBDB99193A272D42DDF2ECF624D7352C5A8F176072F3C59081722951D74709167B0CE30D5D5FD8AF3805C705D1B97B616A216143DF975B81F731B21F6372B64992055F49B144D7101396DBC89B159FDF4F5FB493A43E89A3FA06931409A2ADE3DEBEAC7E5C5E587779F4B9C0DC2A212C6E7A2763E19E62594D0C6111D55B5E55491839A3A4ADED8DF532F8A2B03F90E265049AA65E0BEAB7652E04951BE1F4D30CE9DB0968D9ED73BA2397C0C420A4F03384B5CFAE9E28739090BA9E7DE6F69BEF9950332D1047ECE356F54EB3DD1D90089A20F1DF03803BE1775B82592EA17D1E987BE509C853B6E255DF6070E607A2185BEDB8AC20AA5A5060FBD14ED016D04E90A9C84A5EDD668F93AB2DB023D25B45BBFA7199DDEF2A73221169866CD735D4326E349899B2B23CE9D33AE1B8015628E012B168FBB01CB55C88C564EB02D052D66B446A7BE4F8C2BC5EFB86E9BE62EFA00D6B61D9F089D53091956D4AF83DFDEFBA81410279AEA28E5AE4990C2A828D1A6E67B9A04088834D83D514F9381CE66428BB0EC52073E191559E658376B562487B729ABE0BB669CA86DB35FA92F25E62F91332A7D1F142A41D742CF0F10E18C1D68C71332A3BC47225760C639CE52BCA738975268136A2D54B533F7FE0DAE6CCBCDA890D11D123530C640B3411259E81F854DFA66C6299AD2D7827ACBEE61AE0479269957D536B05B18A9FDB569948D8940A80B62AFA96D651E027E1C6407739919CCD56630977F6F30E7D8F538988F83F938988F83F938988F83F9BF19CCA9B385E43A90F6091A162C156EFD300D6B9DE765201CD799D2922F78F72D00BABABEF898ABFC5DB22DCE720D52369CEB38EDB218BAFEB2ABB30DDC9E7F1C1BEBAB6DEBE93F6F3D64410BD6E6A38EED607D7EC784878963858A9236DD9478D4B35B6803B0EEF10F368D6421',2,NULL,'','');
INSERT INTO "snapshot_decision" VALUES(2,'rejected',1795917600000000,'alice','the link is being repaired',X'789CED585B6FDA3014FE2B939F297242612D6F933A6DD5A4760FDB1E564D96E3186AD5B7F9428B50FFFB8E435A4271037DDA34118150ECEF1C9FEB77485628D03BAE090D688A4A5C4E4E8AE2A43CFF86CB29C6F0F98906E8D678D85DA13BEE3497809B0C8B21868DCA9840440D2B182E58883608C589E7CCE8DAA3E978880788D94898891A748CCA011246A998D4F9400307590D4A7CB4D6B8C06BF43840B5130BEE087CBD303A411754C6041D9FE161313E1FE25338EC497EBDB99193A272D42DDF2ECF624D7352C5A8F176072F3C59081722951D74709167B0CE30D5D5FD8AF3805C705D1B97B616A216143DF975B81F731B21F6372B64992055F49B144D7101396DBC89B159FDF4F5FB493A43E89A3FA06931409A2ADE3DEBEAC7E5C5E587779F4B9C0DC2A212C6E7A2763E19E62594D0C6111D55B5E55491839A3A4ADED8DF532F8A2B03F90E265049AA65E0BEAB7652E04951BE1F4D30CE9DB0968D9ED73BA2397C0C420A4F03384B5CFAE9E28739090BA9E7DE6F69BEF9950332D1047ECE356F54EB3DD1D90089A20F1DF03803BE1775B82592EA17D1E987BE509C853B6E255DF6070E607A2185BEDB8AC20AA5A5060FBD14ED016D04E90A9C84A5EDD668F93AB2DB023D25B45BBFA7199DDEF2A73221169866CD735D4326E349899B2B23CE9D33AE1B8015628E012B168FBB01CB55C88C564EB02D052D66B446A7BE4F8C2BC5EFB86E9BE62EFA00D6B61D9F089D53091956D4AF83DFDEFBA81410279AEA28E5AE4990C2A828D1A6E67B9A04088834D83D514F9381CE66428BB0EC52073E191559E658376B562487B729ABE0BB669CA86DB35FA92F25E62F91332A7D1F142A41D742CF0F10E18C1D68C71332A3BC47225760C639CE52BCA738975268136A2D54B533F7FE0DAE6CCBCDA890D11D123530C640B3411259E81F854DFA66C6299AD2D7827ACBEE61AE0479269957D536B05B18A9FDB569948D8940A80B62AFA96D651E027E1C6407739919CCD56630977F6F30E7D8F538988F83F938988F83F938988F83F9BF19CCA9B385E43A90F6091A162C156EFD300D6B9DE765201CD799D2922F78F72D00BABABEF898ABFC5DB22DCE720D52369CEB38EDB218BAFEB2ABB30DDC9E7F1C1BEBAB6DEBE93F6F3D64410BD6E6A38EED607D7EC784878963858A9236DD9478D4B35B6803B0EEF10F368D6421',NULL,NULL,'','');
CREATE TABLE sweep (
  number INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE CHECK (typeof(id) = 'text'),
  name TEXT NOT NULL CHECK (typeof(name) = 'text'),
  trigger_kind TEXT NOT NULL CHECK (typeof(trigger_kind) = 'text'),
  started_at_us INTEGER NOT NULL CHECK (typeof(started_at_us) = 'integer'),
  planned_runs INTEGER NOT NULL CHECK (typeof(planned_runs) = 'integer'),
  ended_at_us INTEGER CHECK (typeof(ended_at_us) IN ('integer', 'null')),
  duration_seconds REAL CHECK (duration_seconds IS NULL OR (typeof(duration_seconds) = 'real' AND duration_seconds BETWEEN -1.7976931348623157e308 AND 1.7976931348623157e308)),
  outcome TEXT,
  reason TEXT NOT NULL CHECK (typeof(reason) = 'text'),
  detail TEXT NOT NULL CHECK (typeof(detail) = 'text')
);
INSERT INTO "sweep" VALUES(1,'20261129T020000Z-000001','nightly','window',1795917600000000,1,1795917620000000,20.0,'success','','');
CREATE TABLE sweep_tally (
  name TEXT PRIMARY KEY CHECK (typeof(name) = 'text'),
  runs INTEGER NOT NULL CHECK (typeof(runs) = 'integer'),
  consecutive_failures INTEGER NOT NULL CHECK (typeof(consecutive_failures) = 'integer'),
  consecutive_skips INTEGER NOT NULL CHECK (typeof(consecutive_skips) = 'integer'),
  last_run_at_us INTEGER CHECK (typeof(last_run_at_us) IN ('integer', 'null')),
  last_run_duration_seconds REAL NOT NULL CHECK (typeof(last_run_duration_seconds) = 'real' AND last_run_duration_seconds BETWEEN -1.7976931348623157e308 AND 1.7976931348623157e308),
  last_run_success INTEGER CHECK (typeof(last_run_success) IN ('integer', 'null')),
  last_success_at_us INTEGER CHECK (typeof(last_success_at_us) IN ('integer', 'null'))
) WITHOUT ROWID;
INSERT INTO "sweep_tally" VALUES('nightly',1,0,0,1795917620000000,20.0,1,1795917620000000);
CREATE TABLE topology_change (
  id INTEGER PRIMARY KEY,
  kind TEXT NOT NULL CHECK (typeof(kind) = 'text'),
  level TEXT NOT NULL CHECK (typeof(level) = 'text'),
  subject_kind TEXT NOT NULL CHECK (typeof(subject_kind) = 'text'),
  subject_ids TEXT NOT NULL CHECK (typeof(subject_ids) = 'text'),
  sentence TEXT NOT NULL CHECK (typeof(sentence) = 'text'),
  evidence_before TEXT NOT NULL CHECK (typeof(evidence_before) = 'text'),
  evidence_after TEXT NOT NULL CHECK (typeof(evidence_after) = 'text'),
  opened_at_us INTEGER NOT NULL CHECK (typeof(opened_at_us) = 'integer'),
  closed_at_us INTEGER CHECK (typeof(closed_at_us) IN ('integer', 'null')),
  ending TEXT CHECK (typeof(ending) IN ('text', 'null')),
  CHECK ((closed_at_us IS NULL) = (ending IS NULL))
);
INSERT INTO "topology_change" VALUES(1,'nvlink_down','critical','gpu','["GPU-a"]','NVLink 3 is down','18','17',1795917600000000,NULL,NULL);
CREATE TABLE write_check (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  at_us INTEGER NOT NULL CHECK (typeof(at_us) = 'integer')
);
CREATE INDEX sweep_by_name ON sweep (name, number);
CREATE INDEX sweep_open ON sweep (number) WHERE ended_at_us IS NULL;
CREATE INDEX run_by_sweep ON run (sweep_id);
CREATE INDEX run_by_name ON run (sweep, number);
CREATE INDEX run_open ON run (number) WHERE ended_at_us IS NULL;
CREATE INDEX point_by_series ON point (series, run);
CREATE INDEX request_open ON request (id) WHERE state IN ('waiting', 'claimed');
CREATE INDEX run_finished ON run (sweep, engine, gpu_set, collective, number, sweep_id, ended_at_us, purpose)
    WHERE ended_at_us IS NOT NULL AND purpose = 'measurement';
CREATE UNIQUE INDEX finding_open ON finding (kind, subject) WHERE closed_at_us IS NULL;
CREATE INDEX topology_change_open ON topology_change (id) WHERE closed_at_us IS NULL;
CREATE INDEX run_measured ON run
    (sweep, engine, gpu_set, collective, number, parameters_hash, ended_at_us, outcome, reason, purpose)
    WHERE ended_at_us IS NOT NULL AND outcome IN ('ok', 'wrong_results') AND reason <> 'tainted'
    AND reason <> 'unreadable_rows' AND purpose = 'measurement';
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('request',1);
COMMIT;
PRAGMA user_version = 7;
