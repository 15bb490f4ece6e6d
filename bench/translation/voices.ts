import type { Framing } from '../../src/core/protocols/protocol.ts'
import type { Voice } from './speech.ts'
import { anthropicMessages } from './voices/anthropic-messages.ts'
import { bedrockConverse } from './voices/bedrock-converse.ts'
import { cohereChat } from './voices/cohere-chat.ts'
import { gemini } from './voices/gemini.ts'
import { openaiChat } from './voices/openai-chat.ts'
import { openaiResponses } from './voices/openai-responses.ts'

/** How a protocol streams, and with which framing. */
export interface Spoken {
  voice: Voice
  framing: Framing
}

/** The protocols that answer with text. */
export const voices: Record<string, Spoken> = {
  'openai-chat': { voice: openaiChat, framing: 'sse' },
  'anthropic-messages': { voice: anthropicMessages, framing: 'sse' },
  gemini: { voice: gemini, framing: 'sse' },
  'bedrock-converse': { voice: bedrockConverse, framing: 'aws-event-stream' },
  'openai-responses': { voice: openaiResponses, framing: 'sse' },
  'cohere-chat': { voice: cohereChat, framing: 'sse' },
}
