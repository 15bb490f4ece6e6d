import { isObject, type Json, objects, text } from '../../kernel/json.ts'
import type { Logprobs } from '../../language/part.ts'

/** Google's `logprobsResult` as the chat API's `{ content }`: each chosen token with its alternatives. Undefined where there is none. */
export function logprobsOf(given: unknown): Logprobs | undefined {
  if (!isObject(given) || !Array.isArray(given.chosenCandidates)) return undefined
  const alternatives = Array.isArray(given.topCandidates) ? given.topCandidates : []
  const content = given.chosenCandidates.map((chosen, i) => ({
    ...tokenOf(isObject(chosen) ? chosen : {}),
    top_logprobs: objects(isObject(alternatives[i]) ? alternatives[i].candidates : []).map(tokenOf),
  }))
  return { content }
}

const tokenOf = ({ token, logProbability }: Json) => {
  const said = text(token) ?? ''
  return { token: said, logprob: typeof logProbability === 'number' ? logProbability : 0, bytes: [...new TextEncoder().encode(said)] }
}
