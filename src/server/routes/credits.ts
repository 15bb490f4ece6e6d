import { Elysia } from 'elysia'
import type { Gateway } from '../../app/gateway.ts'
import { GatewayError } from '../../base/errors.ts'
import { credits } from '../../limits/credits.ts'
import { allowAnyone } from '../access.ts'
import { describeOperation } from '../operation.ts'
import { createRoutes } from '../resource.ts'

/** Creates the routes of credits. Credits are added only at the terminal. */
export const createCreditRoutes = (gateway: Gateway) =>
  new Elysia().use(createRoutes(gateway, credits)).use(createCoinbaseRoutes())

const GONE = 410

// The public service keeps this old route and answers that it is gone (wire reference B.1).
const createCoinbaseRoutes = () =>
  new Elysia().use(allowAnyone()).post(
    '/credits/coinbase',
    () => {
      throw new GatewayError('not_found', 'Credits cannot be bought here', { status: GONE })
    },
    describeOperation({
      id: 'createCoinbaseCharge',
      tag: 'Credits',
      summary: 'Gone',
      statuses: [GONE],
      open: true,
    }),
  )
