import { GatewayError } from '../errors.ts'
import type { Opened } from '../kernel/iterate.ts'
import type { TextCall } from '../language/call.ts'
import type { Passage } from '../language/passage.ts'
import type { AnswerPart, Kind, Work } from '../language/work.ts'
import type { Match, OpenedRule } from '../policy/filters/rule.ts'
import type { Filters } from '../policy/filters.ts'
import { Filtering } from './filters/filtering.ts'
import { type AnswerFilter, type ContentFiltering, kinds } from './kinds.ts'
import type { PluginUse } from './plugin.ts'
import type { Run } from './run.ts'
import type { InferenceWorld } from './world.ts'

/** The call as filters leave it, and the error if they block it. */
interface Filtered<K extends Kind> {
  call: Work[K]['call']
  error: GatewayError | null
}

/**
 * Applies the policy's filters to the call: it is redacted, or blocked. Returns synchronously if
 * the policy has none. Never throws.
 */
export function filterRun<K extends Kind>(_: InferenceWorld, run: Run<K>): void | Promise<void> {
  const { filters } = run.policy
  if (filters) return filterCall(run, filters)
}

async function filterCall<K extends Kind>(run: Run<K>, filters: Promise<Filters>): Promise<void> {
  try {
    run.filtering = new Filtering(await filters)
    const { call, error } = await filteredCall(run.kind, run.call, run.filtering)
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
export async function filterAdded(
  run: Run,
  before: Work[Kind]['call'],
  next: Work[Kind]['call'],
): Promise<Work[Kind]['call']> {
  if (!run.filtering || before.kind !== 'text' || next.kind !== 'text') return next
  const differing = before.turns.findIndex((turn, i) => turn !== next.turns[i])
  const seen = differing === -1 ? before.turns.length : differing
  const { tools, params, extra } = before
  const isNew = {
    tools: next.tools !== tools,
    params: next.params !== params,
    extra: next.extra !== extra,
  }
  const added: TextCall = {
    ...next,
    turns: next.turns.slice(seen),
    tools: isNew.tools ? next.tools : [],
    params: isNew.params ? next.params : {},
    extra: isNew.extra ? next.extra : {},
  }
  const { call, error } = await filteredCall('text', added, run.filtering)
  if (error) throw error
  return {
    ...next,
    turns: [...next.turns.slice(0, seen), ...call.turns],
    ...(isNew.tools ? { tools: call.tools } : {}),
    ...(isNew.params ? { params: call.params } : {}),
    ...(isNew.extra ? { extra: call.extra } : {}),
  }
}

/**
 * Redacts the texts of the call, or blocks it with 403. A match that is only flagged is noted and
 * stays. Throws 403 for texts that cannot be read.
 */
async function filteredCall<K extends Kind>(
  kind: K,
  call: Work[K]['call'],
  filtering: Filtering,
): Promise<Filtered<K>> {
  const { rewriteTexts }: ContentFiltering<K> = kinds[kind].filtering
  const blocking: Blocking[] = []
  const left = await rewriteTexts(call, passage => rewordedPassage(passage, filtering, blocking))
  return { call: left, error: blocking.length > 0 ? blocked(blocking) : null }
}

/** A rule that blocks a call, and the caller's own words that matched it. */
interface Blocking {
  rule: OpenedRule
  found: string
}

async function rewordedPassage(
  passage: Passage,
  filtering: Filtering,
  blocking: Blocking[],
): Promise<string[]> {
  const screen = filtering.filters.asked(passage.role)
  if (!screen) return passage.pieces
  const { screenedPassage } = await import('../policy/filters/passage.ts')
  const { pieces, matches, text } = await screenedPassage(passage, screen)
  for (const match of matches) noteMatch(match, text, filtering, blocking)
  return pieces
}

function noteMatch(
  { rule, start, end, found = '' }: Match,
  text: string,
  filtering: Filtering,
  blocking: Blocking[],
): void {
  filtering.note(rule, 'input')
  if (rule.action === 'block') blocking.push({ rule, found: found || text.slice(start, end) })
}

/**
 * The error for a call whose words are blocked (wire reference H.6). It quotes the phrases of a
 * prompt injection: they are the caller's own.
 */
function blocked(blocking: Blocking[]): GatewayError {
  const injections = blocking.filter(({ rule }) => rule.filter === 'regex-prompt-injection')
  const rule = (injections[0] ?? blocking[0])?.rule
  const message = rule?.blocked ?? `Request blocked by content filter: ${rule?.name ?? '[BLOCKED]'}`
  return new GatewayError(
    'permission_denied',
    message,
    injections.length > 0 ? { metadata: { patterns: phrasesOf(injections) } } : {},
  )
}

const MOST_PHRASES = 20
const LONGEST_PHRASE = 200

const phrasesOf = (blocking: Blocking[]): string[] =>
  [...new Set(blocking.map(({ found }) => found.slice(0, LONGEST_PHRASE)))].slice(0, MOST_PHRASES)

/**
 * Returns the answer as plugins and content filters leave it, or null if none looks at answers.
 * `read` gets what the provider sent, whatever is left of it: that is what is charged. What blocks
 * the answer ends it with 403 and closes the provider's stream.
 */
export function filteredAnswer<K extends Kind>(
  run: Run<K>,
  uses: PluginUse[],
  answer: Opened<AnswerPart<K>[]>,
  read: (batch: AnswerPart<K>[]) => void,
): Opened<AnswerPart<K>[]> | null {
  let left: Opened<AnswerPart<K>[]> | null = null
  for (const filter of filtersOf(run, uses))
    left = left ? layer(filter, left, () => undefined) : layer(filter, answer, read)
  return left
}

/**
 * Lists the filters of the answer: plugins first, so that content filters see what the client would
 * get.
 */
function filtersOf<K extends Kind>(run: Run<K>, uses: PluginUse[]): AnswerFilter<AnswerPart<K>>[] {
  const { filtering, call } = run
  const screen = filtering?.filters.answered
  const { filterAnswer }: ContentFiltering<K> = kinds[run.kind].filtering
  const own = uses.flatMap(({ plugin, options }) => plugin.after?.(run, options) ?? [])
  const content = screen && filterAnswer?.(call, filtering, screen)
  return [...own, ...(content ? [content] : [])] as AnswerFilter<AnswerPart<K>>[]
}

// How an answer starts and what it counts are no texts: they need not wait, and a message begins
// with them.
const layer = <Part extends object>(
  filter: AnswerFilter<Part>,
  { first, rest }: Opened<Part[]>,
  read: (batch: Part[]) => void,
): Opened<Part[]> => ({
  first: first.filter(part => !isOfChoice(part)),
  rest: new FilteredAnswer(filter, first, rest, read),
})

const isOfChoice = (part: object) => 'choice' in part

/** The parts after the first batch. The texts of the first batch come first. */
class FilteredAnswer<Part extends object> implements AsyncIterator<Part[]> {
  readonly #filter: AnswerFilter<Part>
  readonly #rest: AsyncIterator<Part[]> | null
  readonly #read: (batch: Part[]) => void
  #first: Part[] | null
  #ended = false
  #failure: { thrown: unknown } | null = null

  constructor(
    filter: AnswerFilter<Part>,
    first: Part[],
    rest: AsyncIterator<Part[]> | null,
    read: (batch: Part[]) => void,
  ) {
    this.#filter = filter
    this.#first = first
    this.#rest = rest
    this.#read = read
  }

  async next(): Promise<IteratorResult<Part[]>> {
    if (this.#failure) throw this.#failure.thrown
    if (this.#ended) return { done: true, value: undefined }
    const batch = await this.#batch()
    const value = batch ? await this.#filter.read(batch) : await this.#end()
    if (this.#filter.blocked) await this.#stop(this.#filter.blocked)
    return { done: false, value }
  }

  /** What precedes the blocked text goes out; then comes the failure. */
  async #stop(blocked: GatewayError): Promise<void> {
    this.#ended = true
    this.#failure = { thrown: blocked }
    await this.#rest?.return?.()
  }

  async return(): Promise<IteratorResult<Part[]>> {
    this.#ended = true
    await this.#rest?.return?.()
    return { done: true, value: undefined }
  }

  /** Returns the provider's next batch; undefined at its end. */
  async #batch(): Promise<Part[] | undefined> {
    if (this.#first) {
      const first = this.#first
      this.#first = null
      this.#read(first)
      return first.filter(isOfChoice)
    }
    const step = await this.#step()
    if (!step || step.done) return undefined
    this.#read(step.value)
    return step.value
  }

  // When an answer breaks off, the parts that were held back go out, and then the failure.
  async #step(): Promise<IteratorResult<Part[]> | undefined> {
    try {
      return await this.#rest?.next()
    } catch (thrown) {
      this.#failure = { thrown }
      return undefined
    }
  }

  async #end(): Promise<Part[]> {
    this.#ended = true
    return this.#filter.end()
  }
}
