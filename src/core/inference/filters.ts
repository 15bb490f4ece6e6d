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

/** What the filters made of a call: as it may be sent, or why it may not. */
interface Filtered<K extends Kind> {
  call: Work[K]['call']
  error: GatewayError | null
}

/** Has the policy's filters look at the call: it goes on as they leave it, or is blocked. At once where nothing looks. Never throws. */
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
 * The call of another step with what it adds to the one before it as the filters leave that. What they have seen is not read again, so that a
 * long conversation is not the more often read the longer it is. Throws 403 for what they block.
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

/** The call as the filters leave it: redacted, or refused with 403. What is only flagged is noted and stays. Throws 403 for what they cannot read. */
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

/** What blocks a call, and the caller's own words that do. */
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

/** What a caller is told whose words blocked his call (wire reference H.6). The phrases of an injection are his own, and shown to him. */
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
 * The answer as plugins and content filters leave it, or nothing where none looks at answers. `read` sees what the provider said, whatever is
 * left of it: that is what is charged. What blocks the answer ends it with 403, and the provider is told to stop.
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

/** Those that look at the answer: plugins first, so that content filters see what the client would. */
function filtersOf<K extends Kind>(run: Run<K>, uses: PluginUse[]): AnswerFilter<AnswerPart<K>>[] {
  const { filtering, call } = run
  const screen = filtering?.filters.answered
  const { filterAnswer }: ContentFiltering<K> = kinds[run.kind].filtering
  const own = uses.flatMap(({ plugin, options }) => plugin.after?.(run, options) ?? [])
  const content = screen && filterAnswer?.(call, filtering, screen)
  return [...own, ...(content ? [content] : [])] as AnswerFilter<AnswerPart<K>>[]
}

// How an answer begins and what it counts are no words: they need not wait, and a message begins with them.
const layer = <Part extends object>(
  filter: AnswerFilter<Part>,
  { first, rest }: Opened<Part[]>,
  read: (batch: Part[]) => void,
): Opened<Part[]> => ({
  first: first.filter(part => !isOfChoice(part)),
  rest: new FilteredAnswer(filter, first, rest, read),
})

const isOfChoice = (part: object) => 'choice' in part

/** What is left behind the first batch, whose words come first. */
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

  /** What goes before what blocks goes out; then comes the failure. */
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

  /** What the provider says next; nothing when it has ended. */
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

  // An answer that breaks off has said what it has said: what waited goes out, and then the failure.
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
