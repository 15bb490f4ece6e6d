import { isObject, parseObject, readString } from '../base/json.ts'
import type { TextCall } from '../language/call.ts'
import type { Message } from '../language/message.ts'

/**
 * Compaction: a client of the Responses API sends `compaction_trigger` after its conversation, and
 * goes on with the `compaction` item that it gets. OpenAI's models make one themselves. Any other
 * model is asked for a summary, which is sealed in an item of the same form: the client has it, as
 * it had all of the conversation, so nothing in it is secret.
 */

/** Whether the call asks for a compaction of its conversation. */
export function isCompacting({
  dialect,
  messages,
}: Pick<TextCall, 'dialect' | 'messages'>): boolean {
  const block = messages.at(-1)?.blocks.at(-1)
  return (
    dialect === 'responses' &&
    block?.type === 'other' &&
    isObject(block.value) &&
    block.value.type === 'compaction_trigger'
  )
}

const INSTRUCTION =
  'The conversation so far is to be replaced by a summary, with which you or another model go on ' +
  'without it. Write that summary now, and nothing else: what the user wants and has decided, what ' +
  'was done and found, with names of files, commands and values that are still needed, what failed ' +
  'and why, and what is to be done next.'

/** Returns the call with what asks any model for a summary. It calls no tools for that. */
export function askForSummary(call: TextCall): TextCall {
  const { response_format: _, ...params } = call.params
  const ask: Message = { role: 'user', blocks: [{ type: 'text', text: INSTRUCTION }] }
  const messages = [...call.messages.slice(0, -1), ask]
  return { ...call, messages, params: { ...params, tool_choice: 'none' } }
}

/** No provider's own content contains a dot. */
const PREFIX = 'sealed.'

/** Seals a summary into the content of an item. */
export const sealSummary = (summary: string): string =>
  PREFIX + Buffer.from(JSON.stringify({ summary })).toString('base64url')

/** Reads a summary that was sealed here; undefined for what a provider has encrypted. */
export function openSummary(content: unknown): string | undefined {
  if (typeof content !== 'string' || !content.startsWith(PREFIX)) return undefined
  const json = Buffer.from(content.slice(PREFIX.length), 'base64url').toString()
  return readString(parseObject(json)?.summary) ?? undefined
}
