import type { Dialect } from './dialect.ts'
import { toTranscriptionCall } from './transcriptions/request.ts'
import { collectTranscript } from './transcriptions/response.ts'
import {
  type TranscriptionBody,
  TranscriptionForm,
  TranscriptionRequest,
} from './transcriptions/schema.ts'

/**
 * The transcriptions API: recordings to text (wire reference B.3). The recording comes in
 * base64 or as the file of a form.
 */
export const transcriptions: Dialect<'transcription', TranscriptionBody> = {
  name: 'transcriptions',
  kind: 'transcription',
  path: '/audio/transcriptions',
  operation: {
    id: 'createAudioTranscriptions',
    tag: 'STT',
    summary: 'Transcribe a recording',
  },
  body: TranscriptionRequest,
  form: { body: TranscriptionForm, file: 'file' },
  toCall: toTranscriptionCall,
  collectResponse: collectTranscript,
}
