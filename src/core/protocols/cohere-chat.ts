import { failure } from './cohere-chat/failure.ts'
import { EventReader, parts } from './cohere-chat/reader.ts'
import { request } from './cohere-chat/request.ts'
import type { Protocol } from './protocol.ts'

/** Cohere's chat, version 2: `POST {base_url}/chat` (https://docs.cohere.com/reference/chat). */
export const cohereChat: Protocol<'text'> = {
  framing: 'sse',
  takesNames: false,
  takesUrls: ['image'],
  request,
  parts,
  reader: call => new EventReader(call),
  failure,
}
