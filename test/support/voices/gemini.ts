import { parseExact } from '../../../src/core/kernel/json.ts'
import { type Heard, halves, nothingHeard, type Said, sse, TOKENS, type Voice } from './voice.ts'

interface Part {
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
export const gemini: Voice = {
  streamType: 'text/event-stream',
  heard(body) {
    const heard = nothingHeard()
    const { parts = [] } = (body.systemInstruction ?? {}) as { parts?: Part[] }
    heard.system = parts.flatMap(part => part.text ?? []).join('')
    for (const { role, parts } of body.contents as { role: string; parts: Part[] }[])
      for (const part of parts) hear(role, part, heard)
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
    heard.tools = ((body.tools ?? []) as { functionDeclarations?: { name: string }[] }[]).flatMap(
      tool => (tool.functionDeclarations ?? []).map(({ name }) => name),
    )
    heard.choice =
      allowedFunctionNames?.[0] ??
      { AUTO: 'auto', ANY: 'required', NONE: 'none' }[mode ?? ''] ??
      null
    heard.schema = config.responseJsonSchema ?? config.responseSchema ?? null
    return heard
  },
  whole: said => answer(partsOf(said), FINISH[said.finish]),
  stream(said) {
    const parts = partsOf(said).flatMap(part =>
      part.text === undefined ? [part] : halves(part.text).map(text => ({ ...part, text })),
    )
    const { usageMetadata: _, ...open } = answer([], null)
    return sse([
      ...parts.map(part => ({
        ...open,
        candidates: [{ content: { role: 'model', parts: [part] }, index: 0 }],
      })),
      answer([{ text: '' }], FINISH[said.finish]),
    ])
  },
  broken: text =>
    sse([
      answer([{ text }], null),
      { error: { code: 500, message: 'An internal error has occurred.', status: 'INTERNAL' } },
    ]),
  overloaded: {
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

const answer = (parts: Part[], finishReason: string | null) => ({
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
function partsOf({ text, thought, calls }: Said): Part[] {
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

function hear(role: string, part: Part, heard: Heard): void {
  if (part.thoughtSignature) heard.thoughts.push({ text: '', signature: part.thoughtSignature })
  if (part.thought) return
  if (part.text) heard.lines.push(`${role === 'model' ? 'assistant' : role}: ${part.text}`)
  if (part.inlineData) heard.images.push(part.inlineData.data)
  if (part.functionCall)
    heard.calls.push({
      id: '',
      name: part.functionCall.name,
      input: JSON.stringify(part.functionCall.args ?? {}),
    })
  if (part.functionResponse) {
    const { name, response } = part.functionResponse
    heard.results.push({
      id: name,
      text: String(response.output ?? response.result ?? response.content),
    })
  }
}
