import { isObject, type Json, parseObject, text } from '../../kernel/json.ts'
import type { TextCall } from '../../language/call.ts'
import type { ToolNames } from '../tools.ts'

const WRAPPER = 'parallel'
const PREFIX = 'functions.'

/** One of the calls that a wrapper holds. */
export interface Wrapped {
  name: string
  input: string
}

/**
 * Whether this is a call of `multi_tool_use.parallel`, a tool of the models' training that OpenAI's models sometimes call as if it
 * were one of the client's: it wraps several calls in one.
 */
export const isWrapper = (name: string, { tools }: TextCall): boolean => name === WRAPPER && tools.length > 0 && !names(tools).has(WRAPPER)

/** The calls in a wrapper, by the client's names for its tools; null unless each is of a function that the client has. */
export function unwrapped(input: string, { tools }: TextCall, toolNames: ToolNames): Wrapped[] | null {
  const uses = parseObject(input)?.tool_uses
  if (!Array.isArray(uses) || uses.length === 0) return null
  const calls = uses.map(use => (isObject(use) ? wrappedOf(use, toolNames) : null)).filter(call => call !== null)
  const known = names(tools)
  return calls.length === uses.length && calls.every(({ name }) => known.has(name)) ? calls : null
}

function wrappedOf({ recipient_name, parameters }: Json, toolNames: ToolNames): Wrapped | null {
  const name = text(recipient_name)
  if (!name?.startsWith(PREFIX) || !isObject(parameters)) return null
  return { name: toolNames.given(name.slice(PREFIX.length)), input: JSON.stringify(parameters) }
}

const names = (tools: TextCall['tools']) => new Set(tools.flatMap(tool => (tool.type === 'function' ? [tool.name] : [])))
