import {
  SIGNATURE,
  type StreamRenderer,
  TOKENS,
  TOOL,
  toChunks,
  toUnnamedFrame,
} from '../model-output.ts'

/**
 * Renders a stream of Google's generateContent: every event has the usage, and a tool call is one
 * piece.
 */
export const renderGemini: StreamRenderer = ({ thoughts, texts, inputs }) =>
  toChunks(
    [],
    [
      { open: [], deltas: thoughts.map(text => createAnswer({ text, thought: true })), close: [] },
      { open: [], deltas: texts.map(text => createAnswer({ text })), close: [] },
      {
        open: [],
        deltas: inputs.length > 0 ? [createAnswer(createCallPart(inputs))] : [],
        close: [],
      },
    ],
    [
      createAnswer(
        { text: '', ...(inputs.length > 0 ? {} : { thoughtSignature: SIGNATURE }) },
        'STOP',
      ),
    ],
    toUnnamedFrame,
  ).filter(chunk => chunk.length > 0)

/** Renders the same, with the arguments of a call in pieces, as Vertex streams them. */
export const renderGeminiPartialArgs: StreamRenderer = ({ inputs }) =>
  toChunks(
    [
      createAnswer({
        functionCall: { name: TOOL.name, willContinue: true },
        thoughtSignature: SIGNATURE,
      }),
    ],
    [
      {
        open: [],
        deltas: inputs.map(text =>
          createAnswer({
            functionCall: { partialArgs: [createPartialArg(text)], willContinue: true },
          }),
        ),
        close: [],
      },
    ],
    [createAnswer({ functionCall: {} }), createAnswer({ text: '' }, 'STOP')],
    toUnnamedFrame,
  )

const createPartialArg = (stringValue: string) => ({
  jsonPath: '$.city',
  stringValue,
  willContinue: true,
})

const createCallPart = (inputs: string[]) => ({
  functionCall: { name: TOOL.name, args: JSON.parse(inputs.join('')) },
  thoughtSignature: SIGNATURE,
})

const createAnswer = (part: object, finishReason?: string) => ({
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
