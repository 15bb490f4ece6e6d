import { failure } from './anthropic-messages/failure.ts'
import { parts } from './anthropic-messages/parts.ts'
import { MessageReader } from './anthropic-messages/reader.ts'
import { request, vertexRequest } from './anthropic-messages/request.ts'
import type { Protocol } from './protocol.ts'

/** Anthropic messages: `POST {base_url}/messages`, and everybody who speaks it. */
export const anthropicMessages: Protocol<'text'> = {
  framing: 'sse',
  takesNames: false,
  takesUrls: ['image', 'file'],
  request,
  parts,
  reader: (call, endpoint) => new MessageReader(call, endpoint),
  failure,
}

/** The same on Google's Vertex AI, where media by URL are not fetched. */
export const anthropicVertex: Protocol<'text'> = { ...anthropicMessages, takesUrls: [], request: vertexRequest }
