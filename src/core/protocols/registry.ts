import type { Kind } from '../inference/call.ts'
import { anthropicMessages, anthropicVertex } from './anthropic-messages.ts'
import { bedrockConverse } from './bedrock-converse.ts'
import { cohereChat } from './cohere-chat.ts'
import { gemini } from './gemini.ts'
import { openaiChat } from './openai-chat.ts'
import { openaiResponses } from './openai-responses.ts'
import type { Protocol } from './protocol.ts'

/** Every protocol, by the kind of work it does. */
export const protocols: { [K in Kind]: Record<string, Protocol<K>> } = {
  text: {
    'openai-chat': openaiChat,
    'cohere-chat': cohereChat,
    gemini,
    'anthropic-messages': anthropicMessages,
    'anthropic-vertex': anthropicVertex,
    'openai-responses': openaiResponses,
    'bedrock-converse': bedrockConverse,
    // The built-in sandbox answers like an OpenAI server, but stands for all those that have no field for names.
    sandbox: { ...openaiChat, takesNames: false },
  },
}

/** The names of all protocols, as a config may use them. */
export const protocolNames = [...new Set(Object.values(protocols).flatMap(byName => Object.keys(byName)))]
