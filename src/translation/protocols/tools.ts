import {
  isObject,
  type Json,
  parseObject,
  readObject,
  readObjects,
  readString,
} from '../../base/json.ts'
import { mendEscapes } from '../../base/printable.ts'
import type { TextCall } from '../../language/call.ts'
import type { ToolChoice } from '../../language/tool.ts'

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
  readonly #wireNames = new Map<string, string>()
  readonly #clientNames = new Map<string, string>()
  readonly #rules: NameRules

  constructor({ tools, messages }: Pick<TextCall, 'tools' | 'messages'>, rules: NameRules) {
    this.#rules = rules
    const names = new Set<string>()
    for (const tool of tools) if (tool.type === 'function') names.add(tool.name)
    for (const { blocks } of messages)
      for (const block of blocks) if (block.type === 'tool-call') names.add(block.name)
    // Names that fit come first, so that none of them changes because of another.
    for (const name of names) if (fitName(name, rules) === name) this.#clientNames.set(name, name)
    for (const name of names) if (!this.#clientNames.has(name)) this.#addName(name)
  }

  /** Returns the name for the provider. */
  toWire(name: string): string {
    return this.#wireNames.get(name) ?? name
  }

  /** Returns the name for the client. */
  toClient(name: string): string {
    return this.#clientNames.get(name) ?? name
  }

  #addName(name: string): void {
    const fitting = this.#makeUnique(fitName(name, this.#rules), name)
    this.#wireNames.set(name, fitting)
    this.#clientNames.set(fitting, name)
  }

  // Two names may become the same one. The second then gets a digest of its original.
  #makeUnique(fitting: string, name: string): string {
    if (!this.#clientNames.has(fitting)) return fitting
    return `${fitting.slice(0, this.#rules.longest - 9)}_${computeDigest(name)}`
  }
}

function fitName(name: string, { forbidden, badStart, longest }: NameRules): string {
  const clean = name.replace(forbidden, '_')
  const prefixed = badStart?.test(clean) || clean === '' ? `_${clean}` : clean
  return prefixed.length <= longest
    ? prefixed
    : `${prefixed.slice(0, longest - 9)}_${computeDigest(name)}`
}

/**
 * Returns a tool call's id as a provider accepts it, always the same for the same id, so calls and
 * their results stay together. Some servers make ids of 83 characters with colons in them, which
 * other providers would refuse.
 */
export function fitId(id: string, { forbidden, longest }: NameRules): string {
  const clean = id.replace(forbidden, '_')
  if (clean === id && id !== '' && id.length <= longest) return id
  return `${clean.slice(0, longest - 9)}_${computeDigest(id)}`
}

/**
 * Builds an id for a tool call that came without one, from its position in the answer. The same
 * answer always gets the same ids, and no two answers of a conversation share one.
 */
export const buildCallId = ({ id }: TextCall, position: number | string, prefix = 'call'): string =>
  `${prefix}_${id.slice(-20)}_${position}`

/**
 * Returns an id of exactly nine letters and digits, the only form that Mistral's models accept. It
 * is always the same for the same id.
 */
export const toMistralCallId = (id: string): string =>
  /^[a-zA-Z0-9]{9}$/.test(id) ? id : Bun.hash.xxHash64(id).toString(36).padStart(9, '0').slice(-9)

const computeDigest = (text: string) => Bun.hash.crc32(text).toString(16).padStart(8, '0')

/** A choice among several of the tools: their names, and whether one of them must be called. */
interface Allowance {
  mode: 'auto' | 'required'
  names: string[]
}

/** Reads a choice among several of the tools (`allowed_tools`); null for any other choice. */
export function readAllowance(toolChoice: ToolChoice | undefined): Allowance | null {
  if (typeof toolChoice !== 'object' || toolChoice.type !== 'allowed_tools') return null
  const choice: Json = toolChoice
  // The chat API nests the list in its own object. The Responses API has it next to `type`.
  const { mode, tools } = isObject(choice.allowed_tools) ? choice.allowed_tools : choice
  const names = readObjects(tools).flatMap(
    tool => readString(tool.name) ?? readString(readObject(tool, 'function').name) ?? [],
  )
  return { mode: mode === 'required' ? 'required' : 'auto', names }
}

/**
 * Returns the call with no other tools than those that the model may choose among, for providers
 * that have no such choice.
 */
export function offerAllowed(call: TextCall): TextCall {
  const allowance = readAllowance(call.params.tool_choice)
  if (!allowance) return call
  const allowed = call.tools.filter(
    tool => tool.type === 'function' && allowance.names.includes(tool.name),
  )
  return {
    ...call,
    tools: allowed.length > 0 ? allowed : call.tools,
    params: { ...call.params, tool_choice: allowance.mode },
  }
}

/**
 * Reads the arguments of an answer's tool call as raw text, which keeps big integers. Some servers
 * send an object, which is serialized.
 */
export const readInputText = (value: unknown): string =>
  typeof value === 'string' ? value : isObject(value) ? JSON.stringify(value) : ''

/**
 * Returns a call's arguments as the text of a JSON object, for providers that take a text: models
 * are shown it by templates that read nothing else. What is no object goes back as
 * `parseInputObject` has it.
 */
export const renderInputJson = (input: string): string =>
  parseObject(input) === undefined ? JSON.stringify(parseInputObject(input)) : mendEscapes(input)

/**
 * Returns a call's arguments as an object, for providers that take nothing else. Text that is no
 * object, or was cut off, goes back under `invalidKey`, so the model sees what it wrote. The
 * default key is that of Anthropic's documentation.
 */
export const parseInputObject = (input: string, invalidKey = 'INVALID_JSON'): Json =>
  input.trim() === '' || input.trim() === 'null'
    ? {}
    : (parseObject(input) ?? { [invalidKey]: input })
