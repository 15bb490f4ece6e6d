/** @jsxImportSource preact */
import { askConsole } from './api.ts'
import { Table, useLoaded, Waiting } from './parts.tsx'
import { formatTime } from './text.ts'

interface OwnSession {
  id: string
  created_at: string
  expires_at: string
  is_current: boolean
}

/** One's own sessions, each of which can be ended. */
export function Sessions() {
  const loaded = useLoaded(() => askConsole<{ data: OwnSession[] }>('GET', '/sessions'), [])
  const end = (id: string) => askConsole('DELETE', `/sessions/${id}`).finally(loaded.reload)
  return (
    <>
      <h1>Sessions</h1>
      <p class="quiet">Where you are signed in. A session lasts for twelve hours.</p>
      {loaded.value ? (
        <Table
          caption="Sessions"
          columns={[
            { title: 'Began', show: one => formatTime(one.created_at) },
            { title: 'Ends', show: one => formatTime(one.expires_at) },
            {
              title: 'Here',
              show: one =>
                one.is_current ? (
                  'this one'
                ) : (
                  <button type="button" onClick={() => end(one.id)}>
                    End it
                  </button>
                ),
            },
          ]}
          rows={loaded.value.data}
        />
      ) : (
        <Waiting {...loaded} />
      )}
    </>
  )
}
