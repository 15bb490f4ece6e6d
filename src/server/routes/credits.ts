import { Elysia } from 'elysia'
import { GatewayError } from '../../core/errors.ts'
import type { Gateway } from '../../core/gateway.ts'
import { getCredits } from '../../core/ledger/credits.ts'
import { nobody } from '../access.ts'
import { operation } from '../operation.ts'
import { defineResource, route } from '../resource.ts'

/** Creates the routes of credits. Credits are added only at the terminal. */
export const credits = (gateway: Gateway) => new Elysia().use(balance(gateway)).use(coinbase())

const balance = defineResource({ tag: 'Credits', access: 'management' }, [
  route('GET /credits', 'getCredits', 'Get the credits paid in and spent', getCredits),
])

const GONE = 410

// The public service keeps this old route and answers that it is gone (wire reference B.1).
const coinbase = () =>
  new Elysia().use(nobody()).post(
    '/credits/coinbase',
    () => {
      throw new GatewayError('not_found', 'Credits cannot be bought here', { status: GONE })
    },
    operation({
      id: 'createCoinbaseCharge',
      tag: 'Credits',
      summary: 'Gone',
      statuses: [GONE],
      open: true,
    }),
  )
