import { isObject, type Json, parseObject } from '../kernel/json.ts'
import type { TextCall } from '../language/call.ts'

/**
 * The names that a provider accepts for tools: which characters, how a name may begin, and how long
 * it may be.
 */
export interface NameRules {
  /** Matches each character that a name must not contain. Has the `g` flag. */
  forbidden: RegExp
  /** Matches a name whose beginning is not allowed. */
  badStart?: RegExp
  longest: number
}

/**
 * Translates tool names to those that a provider accepts, and back. Names with dots, slashes or too
 * many characters are replaced on the way out, in tools, choices and history alike. An answer names
 * the tools as the client does.
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
    // Names that fit come first, so that none of them changes because of another.
    for (const name of names) if (fitted(name, rules) === name) this.#given.set(name, name)
    for (const name of names) if (!this.#given.has(name)) this.#add(name)
  }

  /** Returns the name for the provider. */
  sent(name: string): string {
    return this.#sent.get(name) ?? name
  }

  /** Returns the name for the client. */
  given(name: string): string {
    return this.#given.get(name) ?? name
  }

  #add(name: string): void {
    const fitting = this.#free(fitted(name, this.#rules), name)
    this.#sent.set(name, fitting)
    this.#given.set(fitting, name)
  }

  // Two names may become the same one. The second then gets a digest of its original.
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
 * Returns a tool call's id as a provider accepts it, always the same for the same id, so calls and
 * their results stay together. Some servers make ids of 83 characters with colons in them, which
 * other providers would refuse.
 */
export function fittedId(id: string, { forbidden, longest }: NameRules): string {
  const clean = id.replace(forbidden, '_')
  if (clean === id && id !== '' && id.length <= longest) return id
  return `${clean.slice(0, longest - 9)}_${digest(id)}`
}

/**
 * Builds an id for a tool call that came without one, from its position in the answer. The same
 * answer always gets the same ids, and no two answers of a conversation share one.
 */
export const ownId = ({ id }: TextCall, place: number | string, prefix = 'call'): string =>
  `${prefix}_${id.slice(-20)}_${place}`

/**
 * Returns an id of exactly nine letters and digits, the only form that Mistral's models accept. It
 * is always the same for the same id.
 */
export const nineLetters = (id: string): string =>
  /^[a-zA-Z0-9]{9}$/.test(id) ? id : Bun.hash.xxHash64(id).toString(36).padStart(9, '0').slice(-9)

const digest = (text: string) => Bun.hash.crc32(text).toString(16).padStart(8, '0')

/**
 * Reads the arguments of an answer's tool call as raw text, which keeps big integers. Some servers
 * send an object, which is serialized.
 */
export const inputText = (given: unknown): string =>
  typeof given === 'string' ? given : isObject(given) ? JSON.stringify(given) : ''

/** Returns a call's arguments as JSON, for providers that take a text and refuse an empty one. */
export const inputJson = (input: string): string => (input.trim() === '' ? '{}' : input)

/**
 * Returns a call's arguments as an object, for providers that take nothing else. Text that is no
 * object, or was cut off, goes back under `invalidKey`, so the model sees what it wrote. The
 * default key is that of Anthropic's documentation.
 */
export const inputObject = (input: string, odd = 'INVALID_JSON'): Json =>
  input.trim() === '' ? {} : (parseObject(input) ?? { [odd]: input })
