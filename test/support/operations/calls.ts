import type { Asking } from '../operations.ts'

const messages = [{ role: 'user', content: 'Hi' }]

const ofModel =
  (body: object): Asking =>
  async () => ({ body: { model: 'acme/small', ...body } })

/** A valid call of every operation that calls a provider, by operation id. */
export const CALLS: Record<string, Asking> = {
  sendChatCompletionRequest: ofModel({ messages }),
  sendCompletionRequest: ofModel({ prompt: 'Hi' }),
  createMessages: ofModel({ max_tokens: 5, messages }),
  createEmbeddings: ofModel({ model: 'sandbox/embed', input: 'Hi' }),
}
