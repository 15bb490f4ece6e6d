/** The previous major of the AI SDK, with what has another name in the latest. */
export * from 'previous-ai'
export {
  experimental_generateSpeech as generateSpeech,
  experimental_transcribe as transcribe,
  stepCountIs as isStepCount,
} from 'previous-ai'
