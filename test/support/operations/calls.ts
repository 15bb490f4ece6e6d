import type { RequestBuilder } from '../operations.ts'
import { INPUT_AUDIO } from '../recording.ts'

const messages = [{ role: 'user', content: 'Hi' }]

const INITIALIZE = { jsonrpc: '2.0', id: 1, method: 'initialize', params: {} }

const buildCall =
  (body: object): RequestBuilder =>
  async () => ({ body: { model: 'acme/small', ...body } })

const contents = [{ role: 'user', parts: [{ text: 'Hi' }] }]

const CONVERSED = [{ role: 'user', content: [{ text: 'Hi' }] }]

const buildContents =
  (body: object, model = 'acme/small'): RequestBuilder =>
  async () => ({ params: { model }, body })

const buildDeployment =
  (deployment: string, body: object): RequestBuilder =>
  async () => ({ params: { deployment }, query: 'api-version=2024-10-21', body })

/** A valid call of every operation that calls a provider, by operation id. */
export const CALLS: Record<string, RequestBuilder> = {
  sendChatCompletionRequest: buildCall({ messages }),
  sendCompletionRequest: buildCall({ prompt: 'Hi' }),
  countMessageTokens: buildCall({ messages }),
  createMessages: buildCall({ max_tokens: 5, messages }),
  createResponses: buildCall({ input: 'Hi' }),
  compactResponse: buildCall({ input: 'Hi' }),
  countResponseTokens: buildCall({ input: 'Hi' }),
  createEmbeddings: buildCall({ model: 'sandbox/embed', input: 'Hi' }),
  createRerank: buildCall({ model: 'sandbox/embed', query: 'Hi', documents: ['Bye'] }),
  createAudioTranscriptions: buildCall({
    model: 'sandbox/transcribe',
    input_audio: INPUT_AUDIO,
  }),
  createAudioSpeech: buildCall({ model: 'sandbox/speech', input: 'Hi' }),
  createVideos: buildCall({ model: 'sandbox/video', prompt: 'Hi' }),
  createImages: buildCall({ model: 'sandbox/image', prompt: 'Hi' }),
  askMcp: async () => ({ body: INITIALIZE }),
  listenToMcp: async () => ({}),
  leaveMcp: async () => ({}),
  askMcpServer: async () => ({ body: INITIALIZE, params: { server: 'files' } }),
  listenToMcpServer: async () => ({ params: { server: 'files' } }),
  leaveMcpServer: async () => ({ params: { server: 'files' } }),
  converse: buildContents({ messages: CONVERSED }),
  converseStream: buildContents({ messages: CONVERSED }),
  invokeModel: buildContents({ max_tokens: 9, messages }),
  invokeModelWithResponseStream: buildContents({ max_tokens: 9, messages }),
  createModeration: async () => ({ body: { input: 'Hi' } }),
  generateContent: buildContents({ contents }),
  streamGenerateContent: buildContents({ contents }),
  countTokens: buildContents({ contents }),
  embedContent: buildContents({ content: contents[0] }, 'sandbox/embed'),
  batchEmbedContents: buildContents({ requests: [{ content: contents[0] }] }, 'sandbox/embed'),
  createDeploymentChatCompletion: buildDeployment('acme/small', { messages }),
  createDeploymentCompletion: buildDeployment('acme/small', { prompt: 'Hi' }),
  createDeploymentEmbeddings: buildDeployment('sandbox/embed', { input: 'Hi' }),
  createDeploymentImages: buildDeployment('sandbox/image', { prompt: 'Hi' }),
  createDeploymentImageEdits: buildDeployment('sandbox/image', { prompt: 'Hi' }),
  createDeploymentSpeech: buildDeployment('sandbox/speech', { input: 'Hi' }),
  createDeploymentTranscription: buildDeployment('sandbox/transcribe', {
    input_audio: INPUT_AUDIO,
  }),
}
