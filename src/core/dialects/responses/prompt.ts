import { invalid } from '../../errors.ts'
import type { TextCall } from '../../language/call.ts'
import type { Block } from '../../language/message.ts'
import type { ResponsesRequest } from './schema.ts'

/**
 * Prompt templates (wire reference D.1). A template is a preset: its `id` is the preset's slug, and
 * its variables fill the places `{{name}}` in the preset's system prompt.
 */

/** Returns the body with the preset that its template names. Throws 400 if it names two. */
export function namePreset(body: ResponsesRequest): ResponsesRequest {
  const { prompt, preset } = body
  if (!prompt) return body
  if (preset != null && preset !== prompt.id)
    throw invalid('preset: expected the one that prompt names, or none', 'preset')
  readVariables(body)
  return { ...body, preset: prompt.id }
}

/** Returns the call with the template's variables in the preset's system prompt, its first message. */
export function fillPrompt(call: TextCall, body: ResponsesRequest): TextCall {
  const variables = readVariables(body)
  const [first, ...rest] = call.messages
  if (variables.size === 0 || first?.role !== 'system') return call
  const blocks = first.blocks.map(block => fillBlock(block, variables))
  return { ...call, messages: [{ ...first, blocks }, ...rest] }
}

const PLACE = /\{\{\s{0,8}([\w.-]{1,200})\s{0,8}\}\}/g

const fillBlock = (block: Block, variables: Map<string, string>): Block =>
  block.type === 'text'
    ? { ...block, text: block.text.replace(PLACE, (place, name) => variables.get(name) ?? place) }
    : block

function readVariables({ prompt }: ResponsesRequest): Map<string, string> {
  const variables = new Map<string, string>()
  for (const [name, value] of Object.entries(prompt?.variables ?? {})) {
    const text = readText(value)
    if (text === undefined)
      throw invalid(
        `prompt.variables.${name.slice(0, 100)}: expected a text, as the preset's prompt is one`,
        `prompt.variables.${name.slice(0, 100)}`,
      )
    variables.set(name, text)
  }
  return variables
}

function readText(value: unknown): string | undefined {
  if (typeof value === 'string') return value
  const { type, text } = (value ?? {}) as { type?: unknown; text?: unknown }
  return type === 'input_text' && typeof text === 'string' ? text : undefined
}
