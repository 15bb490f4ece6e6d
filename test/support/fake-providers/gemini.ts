import { parseExact } from '../../../src/base/json.ts'
import {
  createReceivedRequest,
  type FakeProvider,
  type ReceivedRequest,
  renderSse,
  type ScriptedAnswer,
  splitInHalf,
  TOKENS,
} from './fake-provider.ts'

interface GeminiPart {
  text?: string
  thought?: boolean
  thoughtSignature?: string
  inlineData?: { data: string }
  functionCall?: { name: string; args?: unknown; id?: string }
  functionResponse?: {
    name: string
    response: { output?: unknown; result?: unknown; content?: unknown }
  }
}

/** Google's generateContent. Its calls have no ids, like those of the older models. */
export const gemini: FakeProvider = {
  streamType: 'text/event-stream',
  readRequest(body) {
    const received = createReceivedRequest()
    const { parts = [] } = (body.systemInstruction ?? {}) as { parts?: GeminiPart[] }
    received.system = parts.flatMap(part => part.text ?? []).join('')
    for (const { role, parts } of body.contents as { role: string; parts: GeminiPart[] }[])
      for (const part of parts) recordPart(role, part, received)
    const config = (body.generationConfig ?? {}) as {
      responseSchema?: unknown
      responseJsonSchema?: unknown
    }
    const { mode, allowedFunctionNames } =
      (
        body.toolConfig as
          | { functionCallingConfig?: { mode?: string; allowedFunctionNames?: string[] } }
          | undefined
      )?.functionCallingConfig ?? {}
    received.tools = (
      (body.tools ?? []) as { functionDeclarations?: { name: string }[] }[]
    ).flatMap(tool => (tool.functionDeclarations ?? []).map(({ name }) => name))
    received.choice =
      allowedFunctionNames?.[0] ??
      { AUTO: 'auto', ANY: 'required', NONE: 'none' }[mode ?? ''] ??
      null
    received.schema = config.responseJsonSchema ?? config.responseSchema ?? null
    return received
  },
  renderAnswer: answer => renderResponse(renderParts(answer), FINISH[answer.finish]),
  renderStream(answer) {
    const parts = renderParts(answer).flatMap(part =>
      part.text === undefined ? [part] : splitInHalf(part.text).map(text => ({ ...part, text })),
    )
    const { usageMetadata: _, ...open } = renderResponse([], null)
    return renderSse([
      ...parts.map(part => ({
        ...open,
        candidates: [{ content: { role: 'model', parts: [part] }, index: 0 }],
      })),
      renderResponse([{ text: '' }], FINISH[answer.finish]),
    ])
  },
  renderBrokenStream: text =>
    renderSse([
      renderResponse([{ text }], null),
      { error: { code: 500, message: 'An internal error has occurred.', status: 'INTERNAL' } },
    ]),
  overloadedResponse: {
    status: 503,
    body: {
      error: {
        code: 503,
        message: 'The model is overloaded. Please try again later.',
        status: 'UNAVAILABLE',
      },
    },
  },
}

const FINISH = { stop: 'STOP', length: 'MAX_TOKENS', tool_calls: 'STOP', refusal: 'SAFETY' }

const renderResponse = (parts: GeminiPart[], finishReason: string | null) => ({
  candidates: [
    { content: { role: 'model', parts }, index: 0, ...(finishReason ? { finishReason } : {}) },
  ],
  usageMetadata: {
    promptTokenCount: TOKENS.input,
    candidatesTokenCount: TOKENS.output,
    totalTokenCount: TOKENS.input + TOKENS.output,
  },
  modelVersion: 'scripted',
  responseId: 'r1',
})

// The signature of a thought is on the part that follows it.
function renderParts({ text, thought, calls }: ScriptedAnswer): GeminiPart[] {
  const signed = thought ? { thoughtSignature: thought.signature } : {}
  return [
    ...(thought ? [{ text: thought.text, thought: true }] : []),
    ...(text ? [{ text, ...(calls ? {} : signed) }] : []),
    ...(calls ?? []).map(({ name, input }, i) => ({
      functionCall: { name, args: parseExact(input) },
      ...(i === 0 ? signed : {}),
    })),
  ]
}

function recordPart(role: string, part: GeminiPart, received: ReceivedRequest): void {
  if (part.thoughtSignature) received.thoughts.push({ text: '', signature: part.thoughtSignature })
  if (part.thought) return
  if (part.text) received.lines.push(`${role === 'model' ? 'assistant' : role}: ${part.text}`)
  if (part.inlineData) received.images.push(part.inlineData.data)
  if (part.functionCall)
    received.calls.push({
      id: '',
      name: part.functionCall.name,
      input: JSON.stringify(part.functionCall.args ?? {}),
    })
  if (part.functionResponse) {
    const { name, response } = part.functionResponse
    received.results.push({
      id: name,
      text: String(
        response.output ?? response.result ?? response.content ?? JSON.stringify(response),
      ),
    })
  }
}
