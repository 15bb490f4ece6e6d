import { type Static, Type } from '@sinclair/typebox'
import { closed, oneOf } from '../../../base/schema-builders.ts'
import { buildHeaders, buildHeadersSchema, EndpointUrl } from '../config.ts'
import { isSuccess } from '../judge.ts'
import type { DeliveryRequest, DestinationKind, RenderWorld } from '../kind.ts'
import { buildOtlp } from '../otlp.ts'
import { writeJson } from '../text.ts'

/** The header with a delivery's signature. */
const SIGNATURE = 'x-gateway-signature'

const CONFIG = Type.Object(
  {
    url: EndpointUrl,
    method: Type.Optional({ ...oneOf('POST', 'PUT'), default: 'POST' }),
    headers: buildHeadersSchema('x-test-connection', SIGNATURE),
    signingSecret: Type.Optional(
      Type.String({
        pattern: '^[!-~]{16,512}$',
        title: '16 to 512 visible ASCII characters',
      }),
    ),
  },
  closed,
)

const JSON_BODY = { 'content-type': 'application/json' }

/** Builds a request with these headers and this body, signed where the config has a secret. */
function buildRequest(
  { now }: RenderWorld,
  { url, method = 'POST', headers, signingSecret: secret }: Static<typeof CONFIG>,
  body: string,
  more: Record<string, string> = {},
): DeliveryRequest {
  const signature = secret === undefined ? {} : { [SIGNATURE]: sign(secret, now, body) }
  return {
    method,
    url,
    headers: buildHeaders(headers, { ...JSON_BODY, ...more, ...signature }),
    body,
  }
}

// The time is signed with the body, so that a receiver can refuse one that is sent again later.
function sign(secret: string, now: number, body: string): string {
  const time = Math.floor(now / 1000)
  const mac = new Bun.CryptoHasher('sha256', secret).update(`${time}.${body}`).digest('hex')
  return `t=${time},v1=${mac}`
}

/**
 * Any server of the operator's own. It gets OTLP in JSON, and whatever 2xx it answers means that
 * the traces have arrived. A test has no spans and says so in a header; 400 passes too, as a server
 * may refuse an empty export (wire reference G.6). With a secret of ours, which the public service
 * has not, requests are signed.
 */
export const webhook: DestinationKind<typeof CONFIG> = {
  type: 'webhook',
  config: CONFIG,
  secrets: ['signingSecret'],
  address: ['url'],
  batchSize: 50,
  render: (world, config, traces) =>
    buildRequest(world, config, writeJson(buildOtlp(world, traces))),
  renderTest: (world, config) =>
    buildRequest(world, config, '{"resourceSpans":[]}', { 'x-test-connection': 'true' }),
  judgeTest: answer => isSuccess(answer) || answer.status === 400,
}
