import { Type } from '@sinclair/typebox'
import { closed, oneOf } from '../../kernel/schema-builders.ts'
import { buildHeaders, buildHeadersSchema, EndpointUrl } from '../config.ts'
import { isSuccess } from '../judge.ts'
import type { DestinationKind } from '../kind.ts'
import { buildOtlp } from '../otlp.ts'
import { writeJson } from '../text.ts'

const CONFIG = Type.Object(
  {
    url: EndpointUrl,
    method: Type.Optional({ ...oneOf('POST', 'PUT'), default: 'POST' }),
    headers: buildHeadersSchema('x-test-connection'),
  },
  closed,
)

const JSON_BODY = { 'content-type': 'application/json' }

/**
 * Any server of the operator's own. It gets OTLP in JSON, and whatever 2xx it answers means that
 * the traces have arrived. A test has no spans and says so in a header; 400 passes too, as a server
 * may refuse an empty export (wire reference G.6).
 */
export const webhook: DestinationKind<typeof CONFIG> = {
  type: 'webhook',
  config: CONFIG,
  secrets: [],
  address: ['url'],
  batchSize: 50,
  render: (world, { url, method = 'POST', headers }, traces) => ({
    method,
    url,
    headers: buildHeaders(headers, JSON_BODY),
    body: writeJson(buildOtlp(world, traces)),
  }),
  renderTest: (_, { url, method = 'POST', headers }) => ({
    method,
    url,
    headers: buildHeaders(headers, { ...JSON_BODY, 'x-test-connection': 'true' }),
    body: '{"resourceSpans":[]}',
  }),
  judgeTest: answer => isSuccess(answer) || answer.status === 400,
}
