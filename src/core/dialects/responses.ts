import { KEEP_ALIVE } from './chat.ts'
import type { Dialect } from './dialect.ts'
import { withPresets } from './presets.ts'
import { RESPONSES_ERROR_FORMAT } from './responses/error.ts'
import { responsesPreset } from './responses/preset.ts'
import { toResponsesCall } from './responses/request.ts'
import { collectResponse } from './responses/response.ts'
import { ResponsesRequest } from './responses/schema.ts'
import { renderResponseFailure, streamResponseEvents } from './responses/stream.ts'

/** The Responses API (specification E3, wire reference D). Nothing is stored. */
export const responses: Dialect<'text', ResponsesRequest> = {
  name: 'responses',
  kind: 'text',
  path: '/responses',
  operation: {
    id: 'createResponses',
    tag: 'Responses',
    summary: 'Answer with a response of items, whole or streamed',
  },
  body: ResponsesRequest,
  errorFormat: RESPONSES_ERROR_FORMAT,
  showsRouting: true,
  toCall: withPresets(toResponsesCall),
  collectResponse,
  streaming: {
    renderKeepAlive: () => KEEP_ALIVE,
    streamEvents: streamResponseEvents,
    renderFailure: renderResponseFailure,
  },
  preset: responsesPreset,
}
