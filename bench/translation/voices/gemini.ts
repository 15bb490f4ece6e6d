import { chunksOf, SIGNATURE, TOKENS, TOOL, unnamed, type Voice } from '../speech.ts'

/**
 * Renders a stream of Google's generateContent: every event has the usage, and a tool call is one
 * piece.
 */
export const gemini: Voice = ({ thoughts, texts, inputs }) =>
  chunksOf(
    [],
    [
      { open: [], deltas: thoughts.map(text => answer({ text, thought: true })), close: [] },
      { open: [], deltas: texts.map(text => answer({ text })), close: [] },
      { open: [], deltas: inputs.length > 0 ? [answer(callOf(inputs))] : [], close: [] },
    ],
    [answer({ text: '', ...(inputs.length > 0 ? {} : { thoughtSignature: SIGNATURE }) }, 'STOP')],
    unnamed,
  ).filter(chunk => chunk.length > 0)

/** Renders the same, with the arguments of a call in pieces, as Vertex streams them. */
export const geminiPartialArgs: Voice = ({ inputs }) =>
  chunksOf(
    [
      answer({
        functionCall: { name: TOOL.name, willContinue: true },
        thoughtSignature: SIGNATURE,
      }),
    ],
    [
      {
        open: [],
        deltas: inputs.map(text =>
          answer({ functionCall: { partialArgs: [piece(text)], willContinue: true } }),
        ),
        close: [],
      },
    ],
    [answer({ functionCall: {} }), answer({ text: '' }, 'STOP')],
    unnamed,
  )

const piece = (stringValue: string) => ({ jsonPath: '$.city', stringValue, willContinue: true })

const callOf = (inputs: string[]) => ({
  functionCall: { name: TOOL.name, args: JSON.parse(inputs.join('')) },
  thoughtSignature: SIGNATURE,
})

const answer = (part: object, finishReason?: string) => ({
  candidates: [
    {
      content: { parts: [part], role: 'model' },
      ...(finishReason ? { finishReason } : {}),
      index: 0,
    },
  ],
  usageMetadata: {
    promptTokenCount: TOKENS.input,
    cachedContentTokenCount: TOKENS.cached,
    candidatesTokenCount: TOKENS.output - TOKENS.reasoning,
    totalTokenCount: TOKENS.input + TOKENS.output,
    promptTokensDetails: [{ modality: 'TEXT', tokenCount: TOKENS.input }],
    thoughtsTokenCount: TOKENS.reasoning,
  },
  modelVersion: 'gemini-3-pro-preview',
  responseId: 'dX6LadKVC7SZ28oPr9yJoQs',
})
