/** How an answer is to look: what differs between chat and text completions, and what the caller did not want to see. */
export interface Shape {
  object: 'chat.completion' | 'text_completion'
  chunkObject: 'chat.completion.chunk' | 'text_completion'
  /** Choices hold a `text` instead of a `message` or `delta`. */
  text: boolean
  /** The caller wants the model to think but not to say what (`reasoning.exclude`). */
  hideReasoning: boolean
  /** The caller speaks of functions, not of tools: the first call is told as `function_call` too. */
  functions: boolean
}

/** The shape for one request: text choices for a `prompt` (specification E9). */
export const shapeOf = (prompt: boolean, legacyRoute: boolean, hideReasoning: boolean, functions = false): Shape => ({
  object: legacyRoute ? 'text_completion' : 'chat.completion',
  chunkObject: legacyRoute ? 'text_completion' : 'chat.completion.chunk',
  text: prompt,
  hideReasoning,
  functions,
})
