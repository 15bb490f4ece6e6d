import { isObject, parseExact } from '../../src/base/json.ts'
import { FINISH_REASONS, type TextPart } from '../../src/language/part.ts'
import type { Usage } from '../../src/language/usage.ts'

/** The limit for indexes of choices and calls. */
const MOST = 1_024
const DIALECTS = ['chat', 'messages', 'responses']

/**
 * Checks the parts of one answer, and throws at the first invalid one: a field of the wrong type,
 * an invalid index, input to a call that has not begun, a second end.
 */
export class Grammar {
  readonly #calls = new Set<string>()
  readonly #ended = new Set<number>()

  read(parts: TextPart[]): void {
    for (const part of parts) {
      const fault = this.#faultOf(part) ?? findJsonFault(part)
      if (fault) throw new Error(`${fault}: ${JSON.stringify(part).slice(0, 500)}`)
    }
  }

  #faultOf(part: TextPart): string | undefined {
    if ('choice' in part && !isIndex(part.choice)) return 'The choice is not an index'
    switch (part.type) {
      case 'start':
        return findStartFault(part)
      case 'text-delta':
      case 'refusal-delta':
        return isText(part.text) && isLogprobs(part.logprobs) && isOptional(part, 'block', isWhole)
          ? undefined
          : 'This is not a text'
      case 'reasoning-delta':
        return isText(part.text) && isDetails(part.details) ? undefined : 'This is not reasoning'
      case 'tool-call-start':
        return this.#faultOfStart(part)
      case 'tool-call-delta':
        if (!this.#calls.has(`${part.choice} ${part.index}`)) return 'The call has not begun'
        return isText(part.input) ? undefined : 'The input is not a text'
      case 'image':
        return isText(part.url) ? undefined : 'The URL is not a text'
      case 'audio-delta':
        return isObject(part.audio) && isSound(part.audio) ? undefined : 'This is not audio'
      case 'annotation':
        return isOptional(part, 'block', isWhole) ? undefined : 'The block is not an index'
      case 'other':
        return DIALECTS.includes(part.dialect) ? undefined : 'There is no such dialect'
      case 'finish':
        return this.#faultOfFinish(part)
      case 'usage':
        return findUsageFault(part.usage)
      default:
        return 'Providers do not send this'
    }
  }

  #faultOfStart({
    choice,
    index,
    id,
    name,
    extra,
  }: Extract<TextPart, { type: 'tool-call-start' }>): string | undefined {
    if (!isIndex(index)) return 'The index is invalid'
    if (!isText(id) || !isText(name)) return 'The call has no name or id'
    if (extra !== undefined && !isObject(extra)) return 'Extra is not an object'
    if (this.#calls.has(`${choice} ${index}`)) return 'The call has begun already'
    this.#calls.add(`${choice} ${index}`)
    return undefined
  }

  #faultOfFinish(part: Extract<TextPart, { type: 'finish' }>): string | undefined {
    if (!FINISH_REASONS.includes(part.reason) || !isTextOrNull(part.native))
      return 'This is not a finish reason'
    if (!isOptional(part, 'sequence', isTextOrNull) || !isOptional(part, 'extra', isObject))
      return 'The further fields are invalid'
    if (this.#ended.has(part.choice)) return 'The choice has ended already'
    this.#ended.add(part.choice)
    return undefined
  }
}

const isText = (value: unknown) => typeof value === 'string'
const isTextOrNull = (value: unknown) => value === null || isText(value)
const isWhole = (value: unknown) => Number.isInteger(value) && Number(value) >= 0
const isIndex = (value: unknown) => isWhole(value) && Number(value) < MOST
const isListOrNull = (value: unknown) => value === null || Array.isArray(value)
const isDetails = (value: unknown) =>
  Array.isArray(value) && value.every(detail => isObject(detail) && isText(detail.type))

function isOptional(part: object, name: string, is: (value: unknown) => boolean): boolean {
  const value: unknown = (part as Record<string, unknown>)[name]
  return value === undefined || is(value)
}

const isLogprobs = (value: unknown) =>
  value === undefined ||
  (isObject(value) && isListOrNull(value.content) && isListOrNull(value.refusal ?? null))

const isSound = (audio: object) =>
  ['id', 'data', 'transcript'].every(name => isOptional(audio, name, isText)) &&
  isOptional(audio, 'expires_at', Number.isFinite)

function findStartFault(part: Extract<TextPart, { type: 'start' }>): string | undefined {
  const words = [part.upstream_id, part.system_fingerprint, part.service_tier]
  return words.every(isTextOrNull) ? undefined : 'A field of the start is not a text'
}

function findUsageFault({ input, output, prediction, units }: Usage): string | undefined {
  const counts = [input, output, prediction ?? {}, units ?? {}].flatMap(Object.values)
  return counts.every(isWhole) ? undefined : 'This is not a count'
}

/** Finds a part that JSON would change. */
function findJsonFault(part: TextPart): string | undefined {
  const json = JSON.stringify(part)
  return JSON.stringify(parseExact(json)) === json ? undefined : 'JSON changes this'
}
