import { isObject, parseObject } from '../../../base/json.ts'
import type { TextCall } from '../../../language/call.ts'
import type { TextPart } from '../../../language/part.ts'
import type { Tool } from '../../../language/tool.ts'

/** Characters of arguments that are kept for judging. An answer that has more is not judged. */
const MAX_KEPT = 1024 * 1024

interface ToolCall {
  choice: number
  index: number
  name: string
  input: string[]
}

/**
 * How an answer calls the tools that it was offered. This is no schema validation. A call must name
 * one of the tools and have an object of arguments with the required members: that separates
 * providers whose templates and parsers work from others.
 */
export class ToolCalls {
  readonly #call: TextCall
  readonly #toolCalls: ToolCall[] = []
  /** The last call of each choice and index: pieces belong to it. */
  readonly #latest = new Map<string, ToolCall>()
  #kept = 0

  constructor(call: TextCall) {
    this.#call = call
  }

  startCall({ choice, index, name }: Extract<TextPart, { type: 'tool-call-start' }>): void {
    const started = { choice, index, name, input: [] }
    this.#toolCalls.push(started)
    this.#latest.set(`${choice} ${index}`, started)
  }

  continueCall({ choice, index, input }: Extract<TextPart, { type: 'tool-call-delta' }>): void {
    this.#kept += input.length
    if (this.#kept > MAX_KEPT) return
    this.#latest.get(`${choice} ${index}`)?.input.push(input)
  }

  /**
   * Tells whether all of them are valid, in an answer with this finish reason that has delivered
   * anything or not. Null if it does not tell: it was cut, it called tools of another kind, or it
   * said something else and was free to.
   */
  areValid(reason: string | null, delivered: boolean): boolean | null {
    if (reason === 'error') return false
    if (reason === 'length' || reason === 'content_filter' || this.#kept > MAX_KEPT) return null
    if (this.#toolCalls.length === 0) return mustCallTool(this.#call) || !delivered ? false : null
    const verdicts = this.#toolCalls.map(call => isValidCall(call, this.#call.tools))
    return verdicts.includes(false) ? false : verdicts.includes(null) ? null : true
  }
}

const mustCallTool = ({ params: { tool_choice } }: TextCall): boolean =>
  tool_choice === 'required' || (typeof tool_choice === 'object' && tool_choice.type === 'function')

/** Null for a call of anything but a function, which has its own rules. */
function isValidCall({ name, input }: ToolCall, tools: Tool[]): boolean | null {
  const tool = tools.find(candidate => candidate.type === 'function' && candidate.name === name)
  if (tool?.type !== 'function')
    return tools.some(candidate => candidate.type === 'other') ? null : false
  const text = input.join('').trim()
  // Some models send no arguments at all for a function without parameters, and clients accept
  // that.
  const args = text === '' ? {} : parseObject(text)
  return (
    args !== undefined && listRequired(tool.parameters).every(member => Object.hasOwn(args, member))
  )
}

function listRequired(parameters: unknown): string[] {
  const required = isObject(parameters) ? parameters.required : undefined
  return Array.isArray(required) ? required.filter(member => typeof member === 'string') : []
}
