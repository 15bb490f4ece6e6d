import { isObject, type Json, readObject, readString } from '../../../base/json.ts'

/**
 * Converts a block of a tool that a provider ran in Anthropic's API into an item; undefined if this
 * API has no form for it. What the tool found is in the model's words and their sources.
 */
export function toNativeItem(block: Json): Json | undefined {
  if (block.type !== 'server_tool_use') return undefined
  const input = readObject(block, 'input')
  const item = TOOLS[readString(block.name) ?? '']?.(input)
  return item && { ...item, status: 'completed' }
}

const TOOLS: Record<string, (input: Json) => Json> = {
  web_search: ({ query }) => ({
    type: 'web_search_call',
    action: { type: 'search', query: readString(query) ?? '' },
  }),
  web_fetch: ({ url }) => ({
    type: 'web_search_call',
    action: { type: 'open_page', url: readString(url) },
  }),
  code_execution: ({ code }) => ({
    type: 'code_interpreter_call',
    code: typeof code === 'string' ? code : isObject(code) ? JSON.stringify(code) : null,
    outputs: null,
  }),
}
