import { anthropicMessages } from './fake-providers/anthropic-messages.ts'
import { bedrockConverse } from './fake-providers/bedrock-converse.ts'
import { cohereChat } from './fake-providers/cohere-chat.ts'
import type { FakeProvider } from './fake-providers/fake-provider.ts'
import { gemini } from './fake-providers/gemini.ts'
import { openaiChat } from './fake-providers/openai-chat.ts'
import { openaiResponses } from './fake-providers/openai-responses.ts'

/** A fake provider for each protocol that answers with text. */
export const fakeProviders: Record<string, FakeProvider> = {
  'openai-chat': openaiChat,
  'anthropic-messages': anthropicMessages,
  'anthropic-vertex': anthropicMessages,
  gemini,
  'bedrock-converse': bedrockConverse,
  'openai-responses': openaiResponses,
  'cohere-chat': cohereChat,
}
