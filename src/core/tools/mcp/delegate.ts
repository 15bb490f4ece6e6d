import { type Endpoint, listSpoken } from '../../catalog/models.ts'
import type { InferenceWorld } from '../../inference/world.ts'
import { isObject } from '../../kernel/json.ts'
import type { TextCall } from '../../language/call.ts'
import type { McpOptions } from './options.ts'

/** The providers whose own API calls MCP servers, by that of OpenAI. */
const NATIVE_PROVIDERS = new Set(['openai', 'azure', 'xai'])

/**
 * Returns the call with the tool as its providers have it themselves; null if the gateway runs it:
 * it was asked for by a prefixed name or in another API, the server is one of the config, an
 * endpoint of the call cannot do it, the call has conditions that stop tools, or the client answers a request that this gateway made.
 */
export function delegateToProvider(
  world: InferenceWorld,
  call: TextCall,
  { isPlain, server_url, connector_id, given }: McpOptions,
): TextCall | null {
  if (!isPlain || call.dialect !== 'responses') return null
  if (server_url === null && connector_id === null) return null
  // No provider knows the gateway's conditions.
  const { hasConditions = false, max_tool_calls = null } = call.serverTools?.asked ?? {}
  if (hasConditions || !isLeftToProviders(world, call) || answersOwnRequest(call)) return null
  const value = { type: 'mcp', ...given }
  return {
    ...call,
    tools: [...call.tools, { type: 'other', dialect: 'responses', value }],
    extra: { ...call.extra, ...(max_tool_calls === null ? {} : { max_tool_calls }) },
  }
}

function isLeftToProviders({ catalog }: InferenceWorld, { models, dialect }: TextCall): boolean {
  const endpoints = models.map(slug => {
    const model = catalog.models.get(slug)
    return model ? listSpoken(model, dialect) : []
  })
  return endpoints.length > 0 && endpoints.every(list => list.length > 0 && list.every(isNative))
}

const isNative = ({ provider, protocol }: Endpoint): boolean =>
  protocol === 'openai-responses' && NATIVE_PROVIDERS.has(provider.slug)

/** Requests of the gateway itself have ids of this form. */
const OWN_REQUEST = /^mcpr_[0-9a-z]{1,6}_[0-9a-z]{1,10}_[0-9a-f]{32}$/

const answersOwnRequest = ({ messages }: TextCall): boolean =>
  messages
    .flatMap(({ blocks }) => blocks)
    .some(
      block =>
        block.type === 'other' &&
        isObject(block.value) &&
        block.value.type === 'mcp_approval_response' &&
        OWN_REQUEST.test(String(block.value.approval_request_id)),
    )
