import type { Framing } from '../../src/translation/protocols/protocol.ts'
import { renderAnthropicMessages } from './mock-protocols/anthropic-messages.ts'
import { renderBedrockConverse } from './mock-protocols/bedrock-converse.ts'
import { renderCohereChat } from './mock-protocols/cohere-chat.ts'
import { renderGemini } from './mock-protocols/gemini.ts'
import { renderOpenaiChat } from './mock-protocols/openai-chat.ts'
import { renderOpenaiResponses } from './mock-protocols/openai-responses.ts'
import type { StreamRenderer } from './model-output.ts'

/** How a protocol streams, and with which framing. */
export interface MockProtocol {
  render: StreamRenderer
  framing: Framing
}

/** The protocols that answer with text. */
export const mockProtocols: Record<string, MockProtocol> = {
  'openai-chat': { render: renderOpenaiChat, framing: 'sse' },
  'anthropic-messages': { render: renderAnthropicMessages, framing: 'sse' },
  gemini: { render: renderGemini, framing: 'sse' },
  'bedrock-converse': { render: renderBedrockConverse, framing: 'aws-event-stream' },
  'openai-responses': { render: renderOpenaiResponses, framing: 'sse' },
  'cohere-chat': { render: renderCohereChat, framing: 'sse' },
}
