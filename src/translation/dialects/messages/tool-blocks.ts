import { type Json, omitUndefined, parseObject } from '../../../base/json.ts'
import type { ServerToolOutcome, ServerToolUse } from '../../../language/part.ts'

/** The ids of blocks of tools that the gateway runs begin like this, as Anthropic's do. */
export const SERVER_TOOL_ID = 'srvtoolu_gateway_'

const buildId = ({ id }: ServerToolUse) => SERVER_TOOL_ID + id

/** Converts the beginning of a use of one of the gateway's own tools into a block. */
export const toToolUseBlock = (use: ServerToolUse): Json => ({
  type: 'server_tool_use',
  id: buildId(use),
  name: use.name,
  input: parseObject(use.input) ?? {},
  caller: { type: 'direct' },
})

/**
 * Converts the end of a use into a block; null if this API has no form for it (wire reference M):
 * what the tool found is in the model's words.
 */
export function toToolResultBlock(end: ServerToolUse & ServerToolOutcome): Json | null {
  const form = FORMS[end.tool]
  if (!form) return null
  const { type, render, error_code } = form
  const caller = { type: 'direct' }
  const isTold = end.isError && error_code !== null
  const content = isTold ? { type: `${type}_error`, error_code } : render(end)
  return { type, tool_use_id: buildId(end), content, ...form.renderBeside?.(end), caller }
}

/** The form of the results of one tool. */
interface ResultForm {
  type: string
  /** Null if what it renders tells of a failure too. */
  error_code: string | null
  render(end: ServerToolUse & ServerToolOutcome): unknown
  /** Renders what stands beside the content. */
  renderBeside?(end: ServerToolUse & ServerToolOutcome): Json
}

const renderContainer = ({ item: { container_id, files } }: ServerToolUse): Json =>
  omitUndefined({ container_id, files })

const FORMS: Record<string, ResultForm> = {
  shell: {
    type: 'openrouter_shell_tool_result',
    error_code: null,
    render: ({ item: { output, error } }) => omitUndefined({ output, error }),
    renderBeside: renderContainer,
  },
  bash: {
    type: 'openrouter_bash_tool_result',
    error_code: null,
    render: ({ item: { stdout, stderr, exitCode, error } }) =>
      omitUndefined({ stdout, stderr, exitCode, error }),
    renderBeside: renderContainer,
  },
  web_search: {
    type: 'web_search_tool_result',
    error_code: 'unavailable',
    render: ({ sources }) =>
      sources.map(({ url, title }) => ({
        type: 'web_search_result',
        ...{ url, title: title ?? '', encrypted_content: '', page_age: null },
      })),
  },
  web_fetch: {
    type: 'web_fetch_tool_result',
    error_code: 'url_not_accessible',
    render: ({ sources: [source], output }) => ({
      type: 'web_fetch_result',
      url: source?.url ?? '',
      retrieved_at: null,
      content: {
        type: 'document',
        source: { type: 'text', media_type: 'text/plain', data: output },
        title: source?.title ?? null,
        citations: null,
      },
    }),
  },
  tool_search: {
    type: 'tool_search_tool_result',
    error_code: 'unavailable',
    render: ({ loads }) => ({
      type: 'tool_search_tool_search_result',
      tool_references: loads.map(tool_name => ({ type: 'tool_reference', tool_name })),
    }),
  },
}
