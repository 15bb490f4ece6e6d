import { createAlibaba } from '@ai-sdk/alibaba'
import { createAmazonBedrock } from '@ai-sdk/amazon-bedrock'
import { createAnthropic } from '@ai-sdk/anthropic'
import { createAzure } from '@ai-sdk/azure'
import { createCohere } from '@ai-sdk/cohere'
import { createDeepSeek } from '@ai-sdk/deepseek'
import { createGoogle } from '@ai-sdk/google'
import { createGroq } from '@ai-sdk/groq'
import { createMistral } from '@ai-sdk/mistral'
import { createMoonshotAI } from '@ai-sdk/moonshotai'
import { createOpenResponses } from '@ai-sdk/open-responses'
import { createOpenAI } from '@ai-sdk/openai'
import { createXai } from '@ai-sdk/xai'
import type { Model } from './reading.ts'
import type { Recording } from './recordings.ts'

/** Creates a model of the provider's own client for this recording. Throws if there is none. */
export function createOracle(recording: Recording, baseURL: string): Model {
  const model = MODELS[`${recording.package} ${recording.protocol}`]
  if (!model)
    throw new Error(`No client of ${recording.package} is known for ${recording.protocol}`)
  return model({ baseURL, apiKey: 'mock' }, recording.name)
}

type Address = { baseURL: string; apiKey: string }

const MODELS: Record<string, (address: Address, name: string) => Model> = {
  'alibaba openai-chat': (address, name) => createAlibaba(address)(name),
  'amazon-bedrock bedrock-converse': (address, name) =>
    createAmazonBedrock({ ...address, region: 'us-east-1' })(name),
  'anthropic anthropic-messages': (address, name) => createAnthropic(address)(name),
  'azure openai-chat': (address, name) => createAzure(address).deepseek(name),
  'azure openai-responses': (address, name) => createAzure(address).responses(name),
  'cohere cohere-chat': (address, name) => createCohere(address)(name),
  'deepseek openai-chat': (address, name) => createDeepSeek(address)(name),
  'google gemini': (address, name) => createGoogle(address)(name),
  'groq openai-chat': (address, name) => createGroq(address)(name),
  'mistral openai-chat': (address, name) => createMistral(address)(name),
  'moonshotai openai-chat': (address, name) => createMoonshotAI(address)(name),
  'open-responses openai-responses': ({ baseURL, apiKey }, name) =>
    createOpenResponses({ name: 'open-responses', url: `${baseURL}/responses`, apiKey })(name),
  'openai openai-chat': (address, name) => createOpenAI(address).chat(name),
  'openai openai-responses': (address, name) => createOpenAI(address).responses(name),
  'xai openai-responses': (address, name) => createXai(address).responses(name),
}
