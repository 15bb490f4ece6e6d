import { isRawJson, type Json, readObjects, readString } from '../../../base/json.ts'
import { unreadableAnswer } from '../failure.ts'

type PathStep = string | number
type Container = Json | unknown[]

/** Longer or more deeply nested arguments are no real tool call. */
const MAX_CHARACTERS = 4 * 1024 * 1024
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
    for (const piece of readObjects(pieces)) this.#addPiece(piece)
  }

  /** Returns the arguments as JSON text. */
  get input(): string {
    return JSON.stringify(this.#root)
  }

  #addPiece(piece: Json): void {
    const path = readString(piece.jsonPath) ?? ''
    this.#countCharacters(path.length + (readString(piece.stringValue)?.length ?? 0))
    if (path.length > LONGEST_PATH) throw unreadableAnswer()
    const steps = parsePath(path)
    const last = steps.pop()
    if (last === undefined) return
    const container = this.#findContainer(steps, last)
    if (container) setMember(container, last, computeValue(piece, path, getMember(container, last)))
  }

  #countCharacters(by: number): void {
    this.#characters += by
    if (this.#characters > MAX_CHARACTERS) throw unreadableAnswer()
  }

  /**
   * Returns the container of a value, and creates it if it is missing. Undefined if another value
   * is in the way.
   */
  #findContainer(steps: PathStep[], last: PathStep): Container | undefined {
    if (steps.length > DEEPEST) throw unreadableAnswer()
    let container: Container = this.#root
    for (const [i, step] of steps.entries()) {
      const next: unknown =
        getMember(container, step) ??
        (typeof (steps[i + 1] ?? last) === 'number' ? [] : Object.create(null))
      if (!isContainer(next) || !setMember(container, step, next)) return undefined
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
const parsePath = (path: string): PathStep[] =>
  [...path.replace(/^\$/, '').matchAll(STEP)].map(([whole, index, , quoted]) =>
    index === undefined ? (quoted ?? whole) : Number(index),
  )

const isContainer = (value: unknown): value is Container =>
  typeof value === 'object' && value !== null && !isRawJson(value)

const getMember = (container: Container, step: PathStep): unknown =>
  Array.isArray(container)
    ? container[Number(step)]
    : Object.hasOwn(container, step)
      ? container[step]
      : undefined

// Lists arrive in order. An index far beyond the end would fill the list with holes.
function setMember(container: Container, step: PathStep, value: unknown): boolean {
  if (value === undefined) return false
  if (!Array.isArray(container)) container[step] = value
  else if (Number(step) <= container.length) container[Number(step)] = value
  else return false
  return true
}

// A piece without a value ends a string or a list, or stands for an empty container. The members of
// any other container would have arrived instead.
function computeValue(piece: Json, path: string, current: unknown): unknown {
  const more = readString(piece.stringValue)
  if (more !== null) return typeof current === 'string' ? current + more : more
  if (typeof piece.numberValue === 'number' || isRawJson(piece.numberValue))
    return piece.numberValue
  if (typeof piece.boolValue === 'boolean') return piece.boolValue
  if ('nullValue' in piece) return null
  if (current !== undefined || piece.willContinue === true) return current
  return path.endsWith('[]') ? [] : Object.create(null)
}
