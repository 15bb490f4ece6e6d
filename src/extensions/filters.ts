import { GatewayError } from '../base/errors.ts'
import type { PeekedSequence } from '../base/iterate.ts'
import { handleEach, runInTurns, type Work as WorkInTurns } from '../base/turns.ts'
import { Filtering } from '../engine/filtering.ts'
import type { AnswerFilter, ContentFiltering } from '../engine/kind.ts'
import { kinds } from '../engine/kinds.ts'
import type { Run } from '../engine/run.ts'
import type { TextCall } from '../language/call.ts'
import type { TextSegment } from '../language/text-segment.ts'
import type { AnswerPart, Kind, Work } from '../language/work.ts'
import type { CompiledRule, Match } from '../limits/filters/rule.ts'
import type { Filters } from '../limits/filters.ts'
import type { Endpoint } from '../resources/models/catalog.ts'
import type { UpstreamRequest } from '../translation/protocols/protocol.ts'
import type { ExtensionWorld } from './world.ts'

/** The call as filters leave it, and the error if they block it. */
interface FilterResult<K extends Kind> {
  call: Work[K]['call']
  error: GatewayError | null
}

/**
 * Applies the policy's filters to the call: it is redacted, or blocked. Returns synchronously if
 * the policy has none. Never throws.
 */
export function filterRun<K extends Kind>(_: ExtensionWorld, run: Run<K>): void | Promise<void> {
  const { filters } = run.policy
  if (filters) return filterCall(run, filters)
}

async function filterCall<K extends Kind>(run: Run<K>, filters: Promise<Filters>): Promise<void> {
  try {
    run.filtering = new Filtering(await filters)
    const { call, error } = await filterTexts(run.kind, run.call, run.filtering)
    run.call = call
    run.blocked = error
  } catch (thrown) {
    run.blocked = GatewayError.from(thrown)
  }
}

/**
 * Filters what the call of the next step adds to the previous one. What was filtered before is not
 * read again, so that a long conversation is not read once more at each step. Throws 403 for what
 * is blocked.
 */
export async function filterAddedContent(
  run: Run,
  previous: Work[Kind]['call'],
  next: Work[Kind]['call'],
): Promise<Work[Kind]['call']> {
  if (!run.filtering || previous.kind !== 'text' || next.kind !== 'text') return next
  const firstDifferent = previous.messages.findIndex((message, i) => message !== next.messages[i])
  const seenCount = firstDifferent === -1 ? previous.messages.length : firstDifferent
  const { tools, params, extra } = previous
  const isNew = {
    tools: next.tools !== tools,
    params: next.params !== params,
    extra: next.extra !== extra,
  }
  const added: TextCall = {
    ...next,
    messages: next.messages.slice(seenCount),
    tools: isNew.tools ? next.tools : [],
    params: isNew.params ? next.params : {},
    extra: isNew.extra ? next.extra : {},
  }
  const { call, error } = await filterTexts('text', added, run.filtering)
  if (error) throw error
  return {
    ...next,
    messages: [...next.messages.slice(0, seenCount), ...call.messages],
    ...(isNew.tools ? { tools: call.tools } : {}),
    ...(isNew.params ? { params: call.params } : {}),
    ...(isNew.extra ? { extra: call.extra } : {}),
  }
}

/**
 * Filters a call that a use of a tool makes, with the filters of the call around it. Throws 403 for
 * what is blocked.
 */
export async function filterInnerCall<K extends Kind>(run: Run<K>): Promise<void> {
  if (!run.filtering) return
  const { call, error } = await filterTexts(run.kind, run.call, run.filtering)
  if (error) throw error
  run.call = call
}

/**
 * Redacts the texts of the call, or blocks it with 403. A match that is only flagged is noted and
 * stays. Throws 403 for texts that cannot be read.
 */
async function filterTexts<K extends Kind>(
  kind: K,
  call: Work[K]['call'],
  filtering: Filtering,
): Promise<FilterResult<K>> {
  const { rewriteTexts }: ContentFiltering<K> = kinds[kind].filtering
  const blocking: BlockingMatch[] = []
  const filtered = await rewriteTexts(call, segment => filterSegment(segment, filtering, blocking))
  return { call: filtered, error: blocking.length > 0 ? callBlocked(blocking) : null }
}

/** A rule that blocks a call, and the caller's own words that matched it. */
interface BlockingMatch {
  rule: CompiledRule
  found: string
}

async function filterSegment(
  segment: TextSegment,
  filtering: Filtering,
  blocking: BlockingMatch[],
): Promise<string[]> {
  // Imported once: asking for a module that is there costs as much as searching a short text.
  segments ??= await import('../limits/filters/text-segment.ts')
  return runInTurns(readSegment(segment, filtering, blocking, segments))
}

let segments: typeof import('../limits/filters/text-segment.ts') | undefined

function* readSegment(
  segment: TextSegment,
  filtering: Filtering,
  blocking: BlockingMatch[],
  { listTexts, redactSegment }: NonNullable<typeof segments>,
): WorkInTurns<string[]> {
  const filterSet = filtering.filters.getInputFilters(segment.role)
  let { pieces } = segment
  if (filterSet) {
    const redacted = yield* redactSegment(segment, filterSet)
    const note = (match: Match) => noteMatch(match, redacted.text, filtering, blocking)
    yield* handleEach(redacted.matches, note)
    pieces = redacted.pieces
  }
  yield* listTexts({ ...segment, pieces }, filtering.readTexts)
  return pieces
}

/**
 * The last gate before a request leaves: reads every string of it that the filters of the call have
 * not read as it stands there, and returns the request without what is redacted. Throws 403 for
 * what is blocked; no other endpoint may get the call then.
 */
export async function filterRequest(
  _: ExtensionWorld,
  run: Run,
  request: UpstreamRequest,
  endpoint: Endpoint,
): Promise<UpstreamRequest> {
  const { filtering } = run
  // By then it is unknown who wrote what, so rules for users' messages alone do not apply.
  const filterSet = filtering?.filters.getInputFilters('system')
  if (!filtering || !filterSet) return request
  filtering.readTexts.add(endpoint.upstreamModel)
  if (run.call.user !== null) filtering.readTexts.add(run.call.user)
  const { body, headers } = request
  const { value, found } = await runInTurns(
    filterSet.filterUnread({ body, headers }, filtering.readTexts),
  )
  const blocking: BlockingMatch[] = []
  const note = ({ match, text }: (typeof found)[number]) => {
    if (match.rule.action !== 'flag' || !filtering.hasFound(match.rule, 'input'))
      noteMatch(match, text, filtering, blocking)
  }
  await runInTurns(handleEach(found, note))
  if (blocking.length > 0) {
    run.blocked = callBlocked(blocking)
    throw run.blocked
  }
  return { ...request, body: value.body, ...(value.headers ? { headers: value.headers } : {}) }
}

function noteMatch(
  { rule, start, end, matchedText = '' }: Match,
  text: string,
  filtering: Filtering,
  blocking: BlockingMatch[],
): void {
  filtering.noteMatch(rule, 'input')
  if (rule.action === 'block') blocking.push({ rule, found: matchedText || text.slice(start, end) })
}

/**
 * The error for a call whose words are blocked (wire reference H.6). It quotes the phrases of a
 * prompt injection: they are the caller's own.
 */
function callBlocked(blocking: BlockingMatch[]): GatewayError {
  const injections = blocking.filter(({ rule }) => rule.filter === 'regex-prompt-injection')
  const rule = (injections[0] ?? blocking[0])?.rule
  const message =
    rule?.blockedMessage ?? `Request blocked by content filter: ${rule?.name ?? '[BLOCKED]'}`
  return new GatewayError(
    'permission_denied',
    message,
    injections.length > 0 ? { metadata: { patterns: listPhrases(injections) } } : {},
  )
}

const MAX_PHRASES = 20
const LONGEST_PHRASE = 200

const listPhrases = (blocking: BlockingMatch[]): string[] =>
  [...new Set(blocking.map(({ found }) => found.slice(0, LONGEST_PHRASE)))].slice(0, MAX_PHRASES)

/**
 * Returns the answer as content filters leave it; null if none looks at answers. What blocks the
 * answer ends it with 403 and closes the provider's stream.
 */
export function filterAnswer<K extends Kind>(
  _: ExtensionWorld,
  run: Run<K>,
  answer: PeekedSequence<AnswerPart<K>[]>,
  read: (batch: AnswerPart<K>[]) => void,
): PeekedSequence<AnswerPart<K>[]> | null {
  const { filtering, call } = run
  const filterSet = filtering?.filters.outputFilters
  const { filterAnswer: createFilter }: ContentFiltering<K> = kinds[run.kind].filtering
  const filter = filterSet && createFilter?.(call, filtering, filterSet)
  return filter ? addFilter(run, filter as AnswerFilter<AnswerPart<K>>, answer, read) : null
}

/** Returns the answer as a filter leaves it. What it blocks ends the answer, as of content filters. */
export const addFilter = <K extends Kind>(
  run: Run<K>,
  filter: AnswerFilter<AnswerPart<K>>,
  answer: PeekedSequence<AnswerPart<K>[]>,
  read: (batch: AnswerPart<K>[]) => void,
): PeekedSequence<AnswerPart<K>[]> =>
  addFilterLayer(filter, answer, {
    read,
    // Tools and turns that still run end for this reason, and not as if the client had left.
    onBlocked(error) {
      if (run.pendingStep) run.cancellation.cancel(error)
    },
  })

/** Who hears of what passes a filter: of the batches, and of the error of a blocked answer. */
interface LayerHooks<Part> {
  read(batch: Part[]): void
  onBlocked(error: GatewayError): void
}

// How an answer starts and what it counts are no texts: they need not wait, and a message begins
// with them.
const addFilterLayer = <Part extends object>(
  filter: AnswerFilter<Part>,
  { first, rest }: PeekedSequence<Part[]>,
  hooks: LayerHooks<Part>,
): PeekedSequence<Part[]> => ({
  first: first.filter(part => !isChoicePart(part)).map(part => filter.readHead?.(part) ?? part),
  rest: new FilteredAnswer(filter, first, rest, hooks),
})

const isChoicePart = (part: object) => 'choice' in part

/** The parts after the first batch. The texts of the first batch come first. */
class FilteredAnswer<Part extends object> implements AsyncIterator<Part[]> {
  readonly #filter: AnswerFilter<Part>
  readonly #rest: AsyncIterator<Part[]> | null
  readonly #hooks: LayerHooks<Part>
  #first: Part[] | null
  #isEnded = false
  #failure: { thrown: unknown } | null = null

  constructor(
    filter: AnswerFilter<Part>,
    first: Part[],
    rest: AsyncIterator<Part[]> | null,
    hooks: LayerHooks<Part>,
  ) {
    this.#filter = filter
    this.#first = first
    this.#rest = rest
    this.#hooks = hooks
  }

  async next(): Promise<IteratorResult<Part[]>> {
    if (this.#failure) throw this.#failure.thrown
    if (this.#isEnded) return { done: true, value: undefined }
    const batch = await this.#readBatch()
    const value = batch ? await this.#filter.read(batch) : await this.#endFilter()
    if (this.#filter.blocked) await this.#stop(this.#filter.blocked)
    return { done: false, value }
  }

  /** What precedes the blocked text goes out; then comes the failure. */
  async #stop(blocked: GatewayError): Promise<void> {
    this.#isEnded = true
    this.#failure = { thrown: blocked }
    this.#hooks.onBlocked(blocked)
    await this.#rest?.return?.()
  }

  async return(): Promise<IteratorResult<Part[]>> {
    this.#isEnded = true
    await this.#rest?.return?.()
    return { done: true, value: undefined }
  }

  /** Returns the provider's next batch; undefined at its end. */
  async #readBatch(): Promise<Part[] | undefined> {
    if (this.#first) {
      const first = this.#first
      this.#first = null
      this.#hooks.read(first)
      return first.filter(isChoicePart)
    }
    const step = await this.#readNext()
    if (!step || step.done) return undefined
    this.#hooks.read(step.value)
    return step.value
  }

  // When an answer breaks off, the parts that were held back go out, and then the failure.
  async #readNext(): Promise<IteratorResult<Part[]> | undefined> {
    try {
      return await this.#rest?.next()
    } catch (thrown) {
      this.#failure = { thrown: this.#filter.readFailure?.(thrown) ?? thrown }
      return undefined
    }
  }

  async #endFilter(): Promise<Part[]> {
    this.#isEnded = true
    return this.#filter.end()
  }
}
