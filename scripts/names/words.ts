/** Splits a name in camelCase or snake_case into lower-case words: `toJSONLine` → to, json, line. */
export const splitWords = (name: string): string[] =>
  (name.match(/[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+/g) ?? []).map(word => word.toLowerCase())

/** Tells whether a function's name begins with a verb, or with the `is` of a predicate. */
export const beginsWithVerb = (name: string): boolean => VERBS.has(splitWords(name)[0] ?? '')

/** Tells whether a name ends in a preposition: `candidatesFor`, `memoryOf`. */
export const endsInPreposition = (name: string): boolean => {
  const words = splitWords(name)
  return words.length > 1 && PREPOSITIONS.has(words.at(-1) ?? '')
}

const PREPOSITIONS = new Set(
  `about above across after against along among around as at before behind below beside besides
  between beyond by down during for from in inside into like near of off on onto out over past per
  since through to toward under until up upon via with within without`.split(/\s+/),
)

/** The verbs that names of functions begin with, in the imperative, and the words of predicates. */
const VERBS = new Set(
  `abort accept access account acquire activate adapt add adjust admit adopt advance aggregate align
  allow allocate announce answer append apply approve archive ask assemble assert assign assume
  attach attempt audit authenticate authorize await back balance begin bind block book borrow bound
  branch break broadcast build bump cache calculate call can cancel cap capture cast catch chain
  change charge check choose chunk claim clamp classify clean clear clip clone close coalesce
  collapse collect combine commit compact compare compile complete compose compress compute
  concat configure confirm connect consume contain contains convert copy correct cost count cover
  create credit cut debit decide declare decode decompress decrypt deduct defer define deflate
  delegate delete deliver deny derive describe deserialize destroy detach detect determine diff
  digest disable discard disconnect discount dispatch display dispose distribute divide do does
  download drain draw drop dump echo edit elect embed emit enable encode encrypt end enforce enqueue
  ensure enter enumerate erase escape estimate evaluate evict examine exceeds exclude execute exist
  exit expand expect expire explain export expose extend extract fail fall feed fetch fill filter
  finalize find finish fire fit fix flatten flip flush fold follow forbid forget format forward
  free freeze fulfil gather generate get give go grant group grow guard guess handle has hash have
  hedge hide hold identify ignore import include includes increment index infer inflate inherit
  init initialize inject insert inspect install instrument interpret interrupt intersect invalidate
  invert invoke is isolate issue iterate join journal jump keep kill label lay lead leave let lift
  limit link list listen load localize locate lock log look lower make map mark mask match may
  measure meet memoize mend merge meter migrate mint mirror mount move multiply must name narrow
  needs normalize note notify number observe occupy omit open order overlay override own pace pack
  page paint parse partition pass patch pause pay peek perform permit persist pick pin pipe place
  plan point poll pop populate post predict prefer prefix prepare prepend present preserve press
  prevent print probe proceed process produce profile prohibit prompt propose protect provide
  provision proxy prune publish pull purge push put query queue quote race raise range rank rate
  reach read rebuild recall receive recheck recognize reconcile reconfigure reconnect record recover
  redact redirect reduce refer refill reformat refresh refund refuse register reject relay release
  reload remember remove rename render renew reopen reorder repair repeat replace replay reply
  report request require requires rescan reserve reset resolve respond restart restore restrict
  resume retain retire retrieve retry return revert review revive revoke rewrite rewind roll rotate
  round route run sample sanitize satisfies save scale scan schedule scope score screen seal search
  see seed seek select send separate serialize serve set settle shape share shift should show shut
  sign simulate sit skip sleep slice sort spawn spend split spread start state step stop store
  stream strip submit subscribe substitute subtract sum summarize supports surround suspend swap
  sweep switch sync synthesize tag tail take takes tally tell terminate test throttle throw tick tie
  time to toggle total touch trace track train transact transfer transform translate traverse treat
  trim truncate try tune turn unbind undo unescape unfold unify unlock unpack unregister unseal
  unset unsubscribe unwrap update upgrade upload upsert use validate verify visit wait wake walk want
  warm warn was watch weigh widen will withdraw withhold works would wrap write yield`.split(/\s+/),
)
