import { isRawJson, type Json, objects, text } from '../../kernel/json.ts'
import { unreadable } from '../failure.ts'

type Step = string | number
type Container = Json | unknown[]

/** Longer or more deeply nested arguments are no real tool call. */
const MOST_CHARACTERS = 4 * 1024 * 1024
const DEEPEST = 64
const LONGEST_PATH = 1024

/**
 * Assembles the arguments of a call that arrive in pieces (`functionCall.partialArgs`). Each piece
 * names a location by JSONPath and gives a value, or more of a string. Throws
 * `provider_unavailable` if they exceed any plausible size.
 */
export class PartialArgs {
  readonly #root: Json = Object.create(null)
  #characters = 0

  /** Adds the next pieces. */
  add(pieces: unknown): void {
    for (const piece of objects(pieces)) this.#addOne(piece)
  }

  /** Returns the arguments as JSON text. */
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

  /**
   * Returns the container of a value, and creates it if it is missing. Undefined if another value
   * is in the way.
   */
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

/**
 * Parses `$.items[0].name` into `['items', 0, 'name']`. A path that ends in `[]` addresses the
 * list.
 */
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

// Lists arrive in order. An index far beyond the end would fill the list with holes.
function put(container: Container, step: Step, value: unknown): boolean {
  if (value === undefined) return false
  if (!Array.isArray(container)) container[step] = value
  else if (Number(step) <= container.length) container[Number(step)] = value
  else return false
  return true
}

// A piece without a value ends a string or a list, or stands for an empty container. The members of
// any other container would have arrived instead.
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
