import type { Dialect } from './dialect.ts'
import { toSpeechCall } from './speech/request.ts'
import { collectSpeech } from './speech/response.ts'
import { SpeechRequest } from './speech/schema.ts'

/** The speech API: a text read aloud (wire reference B.3). Answers are bytes, or events. */
export const speech: Dialect<'speech', SpeechRequest> = {
  name: 'speech',
  kind: 'speech',
  path: '/audio/speech',
  operation: { id: 'createAudioSpeech', tag: 'TTS', summary: 'Read a text aloud' },
  body: SpeechRequest,
  produces: ['audio/*'],
  toCall: toSpeechCall,
  collectResponse: collectSpeech,
}
