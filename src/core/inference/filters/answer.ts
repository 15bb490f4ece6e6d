import type { GatewayError } from '../../errors.ts'
import type { Opened } from '../../kernel/iterate.ts'
import type { AnswerPart, Kind } from '../../language/work.ts'
import { type AnswerFilter, type ContentFiltering, kinds } from '../kinds.ts'
import type { Run } from '../run.ts'

/**
 * The answer as the content filters leave it, or nothing where none looks at answers. `read` sees what the provider said, whatever is left
 * of it: that is what is charged. What blocks the answer ends it with 403, and the provider is told to stop.
 */
export function filteredAnswer<K extends Kind>(
  run: Run<K>,
  { first, rest }: Opened<AnswerPart<K>[]>,
  read: (batch: AnswerPart<K>[]) => void,
): Opened<AnswerPart<K>[]> | null {
  const { filtering, call } = run
  const screen = filtering?.filters.answered
  const { filterAnswer }: ContentFiltering<K> = kinds[run.kind].filtering
  const filter = screen && filterAnswer?.(call, filtering, screen)
  if (!filter) return null
  // How an answer begins and what it counts are no words: they need not wait, and a message begins with them.
  return {
    first: first.filter(part => !isOfChoice(part)),
    rest: new FilteredAnswer(filter as AnswerFilter<AnswerPart<K>>, first, rest, read),
  }
}

const isOfChoice = (part: object) => 'choice' in part

/** What is left behind the first batch, whose words come first. */
class FilteredAnswer<Part extends object> implements AsyncIterator<Part[]> {
  readonly #filter: AnswerFilter<Part>
  readonly #rest: AsyncIterator<Part[]> | null
  readonly #read: (batch: Part[]) => void
  #first: Part[] | null
  #ended = false
  #failure: { thrown: unknown } | null = null

  constructor(filter: AnswerFilter<Part>, first: Part[], rest: AsyncIterator<Part[]> | null, read: (batch: Part[]) => void) {
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
