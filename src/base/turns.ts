import { yieldToEventLoop } from './clock.ts'

/** A work that can be interrupted wherever it yields. It returns a value at its end. */
export type Work<T> = Generator<undefined, T, undefined>

/** How long works may hold the event loop in one of its turns, in milliseconds. */
const TURN = 5

/**
 * Does a work without holding the event loop: after 5 milliseconds it waits for the next turn. All
 * works of the process share these milliseconds, so that a hundred at once are no worse than one.
 */
export async function runInTurns<T>(work: Work<T>): Promise<T> {
  for (;;) {
    if (eventLoop.isBusy) await eventLoop.waitForTurn()
    const startedAt = performance.now()
    const result = runUntil(work, startedAt + eventLoop.timeLeft)
    eventLoop.spend(performance.now() - startedAt)
    if (result) return result.value
  }
}

/** Does a work to its end at once. Only for short texts. */
export function runAtOnce<T>(work: Work<T>): T {
  for (let step = work.next(); ; step = work.next()) if (step.done) return step.value
}

function runUntil<T>(work: Work<T>, deadline: number): { value: T } | null {
  do {
    const step = work.next()
    if (step.done) return step
  } while (performance.now() < deadline)
  return null
}

/** What works have used of the event loop's current turn. */
class EventLoop {
  #spent = 0

  get isBusy(): boolean {
    return this.timeLeft <= 0
  }

  get timeLeft(): number {
    return TURN - this.#spent
  }

  spend(milliseconds: number): void {
    this.#spent += milliseconds
  }

  async waitForTurn(): Promise<void> {
    await yieldToEventLoop()
    this.#spent = 0
  }
}

// A process has one event loop, however many gateways share it.
const eventLoop = new EventLoop()

/** How many small items a work handles before others may have their turn. */
export const ITEMS_AT_ONCE = 256

/** How many pieces of an answer are put together before others get their turn. */
export const PIECES_AT_ONCE = 4_096

/**
 * A text that grows by pieces. It is joined as it grows: to join a million at its end would hold
 * everyone else up.
 */
export class GrowingText {
  #text = ''
  #pieces: string[] = []

  add(piece: string): void {
    if (this.#pieces.push(piece) === PIECES_AT_ONCE) this.#join()
  }

  /** The text so far. */
  get text(): string {
    if (this.#pieces.length > 0) this.#join()
    return this.#text
  }

  #join(): void {
    this.#text += this.#pieces.join('')
    this.#pieces = []
  }
}

/**
 * Sorts like `toSorted`. What is sorted already, or consists of a few sorted lists, is merged in
 * time linear in its length.
 */
export function* sortInTurns<T>(items: T[], compare: (a: T, b: T) => number): Work<T[]> {
  let runs = yield* findRuns(items, compare)
  while (runs.length > 1) {
    const merged: T[][] = []
    for (let i = 0; i < runs.length; i += 2)
      merged.push(yield* mergeRuns(runs[i] ?? [], runs[i + 1] ?? [], compare))
    runs = merged
  }
  return runs[0] ?? []
}

/** Cuts a list into parts that are sorted. Short ones are sorted together. */
function* findRuns<T>(items: T[], compare: (a: T, b: T) => number): Work<T[][]> {
  const runs: T[][] = []
  for (let from = 0; from < items.length; ) {
    let until = from + 1
    while (until < items.length && compare(items[until - 1] as T, items[until] as T) <= 0) {
      until += 1
      if (until % ITEMS_AT_ONCE === 0) yield
    }
    const isShort = until - from < ITEMS_AT_ONCE
    const run = items.slice(from, isShort ? from + ITEMS_AT_ONCE : until)
    runs.push(isShort ? run.toSorted(compare) : run)
    from += run.length
    yield
  }
  return runs
}

function* mergeRuns<T>(first: T[], second: T[], compare: (a: T, b: T) => number): Work<T[]> {
  if (second.length === 0) return first
  const merged: T[] = []
  let a = 0
  let b = 0
  while (a < first.length || b < second.length) {
    const isFirst =
      b >= second.length || (a < first.length && compare(first[a] as T, second[b] as T) <= 0)
    merged.push((isFirst ? first[a++] : second[b++]) as T)
    if (merged.length % ITEMS_AT_ONCE === 0) yield
  }
  return merged
}

/** Handles one item after the other, however many. */
export function* handleEach<T>(items: Iterable<T>, handle: (item: T) => void): Work<void> {
  let count = 0
  for (const item of items) {
    handle(item)
    if (++count % ITEMS_AT_ONCE === 0) yield
  }
}
