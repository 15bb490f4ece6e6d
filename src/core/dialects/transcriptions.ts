import type { Dialect } from './dialect.ts'
import { toTranscriptionCall } from './transcriptions/request.ts'
import { collectTranscript } from './transcriptions/response.ts'
import {
  type TranscriptionBody,
  TranscriptionForm,
  TranscriptionRequest,
} from './transcriptions/schema.ts'
import { transcriptStreaming } from './transcriptions/stream.ts'

/** The most bytes of the fields beside the file: voices of speakers are among them. */
const LARGEST_FIELDS = 8 * 1024 * 1024

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
  form: { body: TranscriptionForm, file: 'file', fields: LARGEST_FIELDS },
  toCall: toTranscriptionCall,
  collectResponse: collectTranscript,
  streaming: transcriptStreaming,
}
