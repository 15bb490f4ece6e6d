import { isObject, type Json, parseObject } from '../kernel/json.ts'
import type { TextCall } from '../language/call.ts'

/** Which names a provider takes for tools: which characters, what may stand first, how many in all. */
export interface NameRules {
  /** Matches each character that may not stand in a name. Global. */
  forbidden: RegExp
  /** Matches a name that may not begin as it does. */
  badStart?: RegExp
  longest: number
}

/**
 * The tools' names as a provider takes them, and back: names with dots, slashes or too many characters are replaced on the
 * way out, in tools, choices and history alike, and an answer names the tools as the client knows them.
 */
export class ToolNames {
  readonly #sent = new Map<string, string>()
  readonly #given = new Map<string, string>()
  readonly #rules: NameRules

  constructor({ tools, turns }: Pick<TextCall, 'tools' | 'turns'>, rules: NameRules) {
    this.#rules = rules
    const names = new Set<string>()
    for (const tool of tools) if (tool.type === 'function') names.add(tool.name)
    for (const { blocks } of turns)
      for (const block of blocks) if (block.type === 'tool-call') names.add(block.name)
    // Those that fit come first, so that none of them has to make room.
    for (const name of names) if (fitted(name, rules) === name) this.#given.set(name, name)
    for (const name of names) if (!this.#given.has(name)) this.#add(name)
  }

  /** The name for the provider. */
  sent(name: string): string {
    return this.#sent.get(name) ?? name
  }

  /** The name for the client. */
  given(name: string): string {
    return this.#given.get(name) ?? name
  }

  #add(name: string): void {
    const fitting = this.#free(fitted(name, this.#rules), name)
    this.#sent.set(name, fitting)
    this.#given.set(fitting, name)
  }

  // Two names may become one: the second is told apart by what it was.
  #free(fitting: string, name: string): string {
    if (!this.#given.has(fitting)) return fitting
    return `${fitting.slice(0, this.#rules.longest - 9)}_${digest(name)}`
  }
}

function fitted(name: string, { forbidden, badStart, longest }: NameRules): string {
  const clean = name.replace(forbidden, '_')
  const begun = badStart?.test(clean) || clean === '' ? `_${clean}` : clean
  return begun.length <= longest ? begun : `${begun.slice(0, longest - 9)}_${digest(name)}`
}

/**
 * A tool call's id as a provider takes it, the same each time for the same id: calls and their results stay together, and
 * whatever made an id of 83 characters with colons in it is not refused for it.
 */
export function fittedId(id: string, { forbidden, longest }: NameRules): string {
  const clean = id.replace(forbidden, '_')
  if (clean === id && id !== '' && id.length <= longest) return id
  return `${clean.slice(0, longest - 9)}_${digest(id)}`
}

/**
 * An id for a call whose provider gave none, by its place in the answer: the same answer has the same ones, and no two answers of a
 * conversation do.
 */
export const ownId = ({ id }: TextCall, place: number | string, prefix = 'call'): string =>
  `${prefix}_${id.slice(-20)}_${place}`

/** An id of exactly nine letters and digits, which is what Mistral's models take; the same each time for the same id. */
export const nineLetters = (id: string): string =>
  /^[a-zA-Z0-9]{9}$/.test(id) ? id : Bun.hash.xxHash64(id).toString(36).padStart(9, '0').slice(-9)

const digest = (text: string) => Bun.hash.crc32(text).toString(16).padStart(8, '0')

/** The arguments that an answer gives: the raw text, big integers and all. A server that sends an object gets it written out. */
export const inputText = (given: unknown): string =>
  typeof given === 'string' ? given : isObject(given) ? JSON.stringify(given) : ''

/** The arguments of a call of the conversation as JSON, for providers that take a text and refuse an empty one. */
export const inputJson = (input: string): string => (input.trim() === '' ? '{}' : input)

/**
 * The arguments as an object, for providers that take nothing else. What the model wrote and is none, or was cut, goes back under
 * this name, that of Anthropic's documentation: the model shall see what it did.
 */
export const inputObject = (input: string, odd = 'INVALID_JSON'): Json =>
  input.trim() === '' ? {} : (parseObject(input) ?? { [odd]: input })
