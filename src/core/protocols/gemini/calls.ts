import { isRawJson, type Json, objects, text } from '../../kernel/json.ts'
import { unreadable } from '../failure.ts'

type Step = string | number
type Container = Json | unknown[]

/** Arguments that hold more than this, or are nested deeper, are nobody's. */
const MOST_CHARACTERS = 4 * 1024 * 1024
const DEEPEST = 64
const LONGEST_PATH = 1024

/**
 * The arguments of a call that come in pieces (`functionCall.partialArgs`): each names its place by a JSONPath and gives a value,
 * or more of a text. Throws `provider_unavailable` where they outgrow any call.
 */
export class PartialArgs {
  readonly #root: Json = Object.create(null)
  #characters = 0

  /** Takes the next pieces. */
  add(pieces: unknown): void {
    for (const piece of objects(pieces)) this.#addOne(piece)
  }

  /** The arguments as JSON text. */
  get input(): string {
    return JSON.stringify(this.#root)
  }

  #addOne(piece: Json): void {
    const path = text(piece.jsonPath) ?? ''
    this.#grow(path.length + (text(piece.stringValue)?.length ?? 0))
    if (path.length > LONGEST_PATH) throw unreadable()
    const steps = stepsOf(path)
    const last = steps.pop()
    if (last === undefined) return
    const container = this.#containerAt(steps, last)
    if (container) put(container, last, filled(piece, path, memberOf(container, last)))
  }

  #grow(by: number): void {
    this.#characters += by
    if (this.#characters > MOST_CHARACTERS) throw unreadable()
  }

  /** What holds the value, made where it is not there yet. Undefined where something else stands in the way. */
  #containerAt(steps: Step[], last: Step): Container | undefined {
    if (steps.length > DEEPEST) throw unreadable()
    let container: Container = this.#root
    for (const [i, step] of steps.entries()) {
      const next: unknown =
        memberOf(container, step) ??
        (typeof (steps[i + 1] ?? last) === 'number' ? [] : Object.create(null))
      if (!isContainer(next) || !put(container, step, next)) return undefined
      container = next
    }
    return container
  }
}

const STEP = /\[(\d{1,9})\]|\[(['"])(.*?)\2\]|[^.[\]]+/g

/** `$.items[0].name` as `['items', 0, 'name']`. A path that ends in `[]` is that of the list. */
const stepsOf = (path: string): Step[] =>
  [...path.replace(/^\$/, '').matchAll(STEP)].map(([whole, index, , quoted]) =>
    index === undefined ? (quoted ?? whole) : Number(index),
  )

const isContainer = (value: unknown): value is Container =>
  typeof value === 'object' && value !== null && !isRawJson(value)

const memberOf = (container: Container, step: Step): unknown =>
  Array.isArray(container)
    ? container[Number(step)]
    : Object.hasOwn(container, step)
      ? container[step]
      : undefined

// Lists come in order: a place far behind their end would be filled with nothing.
function put(container: Container, step: Step, value: unknown): boolean {
  if (value === undefined) return false
  if (!Array.isArray(container)) container[step] = value
  else if (Number(step) <= container.length) container[Number(step)] = value
  else return false
  return true
}

// A piece without a value ends a text or a list, or stands for an empty container, whose members would have come instead.
function filled(piece: Json, path: string, before: unknown): unknown {
  const more = text(piece.stringValue)
  if (more !== null) return typeof before === 'string' ? before + more : more
  if (typeof piece.numberValue === 'number' || isRawJson(piece.numberValue))
    return piece.numberValue
  if (typeof piece.boolValue === 'boolean') return piece.boolValue
  if ('nullValue' in piece) return null
  if (before !== undefined || piece.willContinue === true) return before
  return path.endsWith('[]') ? [] : Object.create(null)
}
