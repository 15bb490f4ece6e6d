import { anthropicMessages } from './voices/anthropic-messages.ts'
import { bedrockConverse } from './voices/bedrock-converse.ts'
import { cohereChat } from './voices/cohere-chat.ts'
import { gemini } from './voices/gemini.ts'
import { openaiChat } from './voices/openai-chat.ts'
import { openaiResponses } from './voices/openai-responses.ts'
import type { Voice } from './voices/voice.ts'

/** A fake provider for each protocol that answers with text. */
export const voices: Record<string, Voice> = {
  'openai-chat': openaiChat,
  'anthropic-messages': anthropicMessages,
  'anthropic-vertex': anthropicMessages,
  gemini,
  'bedrock-converse': bedrockConverse,
  'openai-responses': openaiResponses,
  'cohere-chat': cohereChat,
}
