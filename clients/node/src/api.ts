// Generated from /openapi.json by scripts/generate.mjs. Do not edit.

export interface paths {
    "/v1/destinations/{destination}/messages": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** `GET /v1/destinations/{d}/messages` */
        get: operations["list_messages"];
        put?: never;
        /** `POST /v1/destinations/{d}/messages` */
        post: operations["send_message"];
        /** `DELETE /v1/destinations/{d}/messages?idempotency_key=…` */
        delete: operations["cancel_message_by_idempotency_key"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/destinations/{destination}/messages/{sequence}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** `GET /v1/destinations/{d}/messages/{sequence}` */
        get: operations["show_message"];
        put?: never;
        post?: never;
        /** `DELETE /v1/destinations/{d}/messages/{sequence}` */
        delete: operations["cancel_message"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/destinations/{destination}/messages/by-id/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** `GET /v1/destinations/{d}/messages/by-id/{id}` */
        get: operations["show_message_by_id"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/messages/by-id/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** `GET /v1/messages/by-id/{id}` */
        get: operations["find_messages_by_id"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/destinations/{destination}/messages/{sequence}/result": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** `GET /v1/destinations/{d}/messages/{sequence}/result` */
        get: operations["await_result"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/destinations/{destination}/messages/{sequence}/run-now": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** `POST /v1/destinations/{d}/messages/{sequence}/run-now` */
        post: operations["run_message_now"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/destinations/{destination}/run-now": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** `POST /v1/destinations/{d}/run-now` */
        post: operations["run_now"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/destinations": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** `GET /v1/destinations` */
        get: operations["list_destinations"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/destinations/{destination}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** `GET /v1/destinations/{d}` */
        get: operations["show_destination"];
        /** `PUT /v1/destinations/{d}` */
        put: operations["define_destination"];
        post?: never;
        /** `DELETE /v1/destinations/{d}` */
        delete: operations["remove_destination"];
        options?: never;
        head?: never;
        /** `PATCH /v1/destinations/{d}` */
        patch: operations["change_destination"];
        trace?: never;
    };
    "/v1/destinations/{destination}/sources": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** `GET /v1/destinations/{d}/sources` */
        get: operations["list_sources"];
        put?: never;
        post?: never;
        /** `DELETE /v1/destinations/{d}/sources?name=…` */
        delete: operations["remove_source"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/removed-destinations": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** `GET /v1/removed-destinations` */
        get: operations["list_removed_destinations"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/destinations/{destination}/restore": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** `POST /v1/destinations/{d}/restore` */
        post: operations["restore_destination"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/destinations/{destination}/versions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** `GET /v1/destinations/{d}/versions` */
        get: operations["list_versions"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/destinations/{destination}/diff": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** `POST /v1/destinations/{d}/diff` */
        post: operations["diff_destination"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/destinations/{destination}/rollback": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** `POST /v1/destinations/{d}/rollback` */
        post: operations["roll_back_destination"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/stats": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** `GET /v1/stats` */
        get: operations["list_stats"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/destinations/{destination}/stats": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** `GET /v1/destinations/{d}/stats` */
        get: operations["show_stats"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/destinations/{destination}/why": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** `GET /v1/destinations/{d}/why` */
        get: operations["why"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/destinations/{destination}/lanes": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** `GET /v1/destinations/{d}/lanes` */
        get: operations["list_lanes"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/pods": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** `GET /v1/pods` */
        get: operations["list_pods"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/doctor": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** `GET /v1/doctor` */
        get: operations["doctor"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/tokens": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** `GET /v1/tokens` */
        get: operations["list_tokens"];
        put?: never;
        /** `POST /v1/tokens` */
        post: operations["make_token"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/tokens/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** `GET /v1/tokens/{id}` */
        get: operations["show_token"];
        put?: never;
        post?: never;
        /** `DELETE /v1/tokens/{id}` */
        delete: operations["revoke_token"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/audit": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** `GET /v1/audit` */
        get: operations["list_audit"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/topics": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** `GET /v1/topics` */
        get: operations["list_topics"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/topics/{topic}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** `GET /v1/topics/{t}` */
        get: operations["show_topic"];
        /** `PUT /v1/topics/{t}` */
        put: operations["define_topic"];
        post?: never;
        /** `DELETE /v1/topics/{t}` */
        delete: operations["remove_topic"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/destinations/{destination}/pause": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** `POST /v1/destinations/{d}/pause` */
        post: operations["pause"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/destinations/{destination}/resume": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** `POST /v1/destinations/{d}/resume` */
        post: operations["resume"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/destinations/{destination}/retry-head": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** `POST /v1/destinations/{d}/retry-head` */
        post: operations["retry_head"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/destinations/{destination}/skip-head": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** `POST /v1/destinations/{d}/skip-head` */
        post: operations["skip_head"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/destinations/{destination}/purge": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** `POST /v1/destinations/{d}/purge` */
        post: operations["purge"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/destinations/{destination}/repair": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** `POST /v1/destinations/{d}/repair` */
        post: operations["repair"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/destinations/{destination}/dead-letters": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** `GET /v1/destinations/{d}/dead-letters` */
        get: operations["list_dead_letters"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/destinations/{destination}/dead-letters/{sequence}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** `GET /v1/destinations/{d}/dead-letters/{sequence}` */
        get: operations["show_dead_letter"];
        put?: never;
        post?: never;
        /** `DELETE /v1/destinations/{d}/dead-letters/{sequence}` */
        delete: operations["discard_dead_letter"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/destinations/{destination}/dead-letters/redrive": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** `POST /v1/destinations/{d}/dead-letters/redrive` */
        post: operations["redrive"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/destinations/{destination}/dead-letters/discard": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** `POST /v1/destinations/{d}/dead-letters/discard` */
        post: operations["discard"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/destinations/{destination}/log": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** `GET /v1/destinations/{d}/log` */
        get: operations["list_log"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/deliveries": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** `GET /v1/deliveries` */
        get: operations["tail_deliveries"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/destinations/{destination}/replay": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** `POST /v1/destinations/{d}/replay` */
        post: operations["replay"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/destinations/{destination}/operations": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** `GET /v1/destinations/{d}/operations` */
        get: operations["list_operations"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/destinations/{destination}/operations/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** `GET /v1/destinations/{d}/operations/{id}` */
        get: operations["show_operation"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/destinations/{destination}/operations/{id}/cancel": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** `POST /v1/destinations/{d}/operations/{id}/cancel` */
        post: operations["cancel_operation"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/leases": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** `POST /v1/leases` */
        post: operations["claim"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/leases/complete": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** `POST /v1/leases/complete` */
        post: operations["complete_leases"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/leases/fail": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** `POST /v1/leases/fail` */
        post: operations["fail_leases"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/leases/extend": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** `POST /v1/leases/extend` */
        post: operations["extend_leases"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/leases/requeue": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** `POST /v1/leases/requeue` */
        post: operations["requeue_leases"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/destinations/{destination}/consume": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** `POST /v1/destinations/{d}/consume` */
        post: operations["consume"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/deliveries/accept": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** `POST /v1/deliveries/accept` */
        post: operations["accept_deliveries"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/deliveries/refuse": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** `POST /v1/deliveries/refuse` */
        post: operations["refuse_deliveries"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/deliveries/extend": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** `POST /v1/deliveries/extend` */
        post: operations["extend_deliveries"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/deliveries/requeue": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** `POST /v1/deliveries/requeue` */
        post: operations["requeue_deliveries"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/healthz": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The process is alive. */
        get: operations["healthz"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/readyz": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The process is ready: Redis answers and accepts writes, this version knows its schema, and the process is not
         *     stopping.
         */
        get: operations["readyz"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/metrics": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The metrics of this process in Prometheus's format. */
        get: operations["metrics"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/problems": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** `GET /problems` */
        get: operations["list_problems"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/problems/{code}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** `GET /problems/{code}` */
        get: operations["show_problem"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/openapi.json": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** `GET /openapi.json` */
        get: operations["openapi"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/docs": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** `GET /docs` */
        get: operations["docs"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/docs/swagger-ui-bundle.js": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["docs_script"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/docs/swagger-ui.css": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["docs_style"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/docs/start.js": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["docs_start"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/topics/{topic}/messages": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** `POST /v1/topics/{t}/messages` */
        post: operations["publish_message"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/messages": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** `POST /v1/messages` */
        post: operations["send_messages"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
}
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        /** @description The answer to a message that all its destinations have. */
        Accepted: {
            /** @description The id of the message. If all copies are duplicates: of the first message. */
            id: string;
            deliveries: components["schemas"]["StoredCopy"][];
        };
        /**
         * @description Whether a TCP receiver answers each frame.
         * @enum {string}
         */
        Ack: "line" | "none";
        /** @description Something that an operator can do. */
        Action: {
            /** @description When this is right. */
            when: string;
            /** @description The command line. */
            command: string;
        };
        /** @description The numbers of a page of destinations, and the sums over all. */
        AllStats: {
            items: components["schemas"]["DestinationStats"][];
            /** @description The `cursor` of the next page; null on the last. */
            next_cursor?: string | null;
            totals?: null | components["schemas"]["Totals"];
        };
        /** @description That workers of a message asked to have it later. */
        AskedLater: {
            /**
             * Format: int32
             * @description How often, since it arrived or an operator retried it.
             */
            times: number;
            /**
             * Format: date-time
             * @description Until when it waits for this reason; absent if it does not.
             */
            until?: string | null;
        };
        /** @description A failed attempt. */
        AttemptError: {
            /** @description The stage. */
            stage: components["schemas"]["Stage"];
            /** @description The kind of error. */
            kind: components["schemas"]["ErrorKind"];
            /**
             * Format: int32
             * @description The HTTP status, if there was one.
             */
            status?: number | null;
            /** @description A text, with the answer of the other side; at most 2 kB. Must not contain secrets. */
            detail: string;
        };
        /** @description One reason why a destination needs attention. */
        Attention: {
            /** @description Why. */
            cause: components["schemas"]["AttentionCause"];
            /**
             * Format: int64
             * @description How many messages it concerns; of `damaged`, how many keys and fields. Of `failing`, an estimate if more than
             *     some dozens fail.
             */
            count: number;
            /**
             * Format: int64
             * @description Since when, in ms since 1970; null if that is not known.
             */
            since?: number | null;
            /** @description The most frequent of the last errors, in short: `status 503`. */
            error?: string | null;
        };
        /**
         * @description Why a destination needs attention.
         * @enum {string}
         */
        AttentionCause: "damaged" | "halted" | "failing" | "no_owner" | "no_worker" | "at_limit" | "paused" | "slow";
        /** @description An action of an operator. */
        AuditEntry: components["schemas"]["AuditedAction"] & {
            id: string;
            /**
             * Format: date-time
             * @description The time of Redis.
             */
            occurred_at: string;
        };
        /** @description Who did what to what, from where, and what came of it. It never holds a body, a definition or a secret. */
        AuditedAction: {
            /**
             * @description The id of the token; `admin_token` for the one of the configuration, `loopback_without_token` as long as
             *     there is no token, `anyone` with `auth.mode = "none"`, `configuration_file` for the file of a process.
             * @default
             */
            actor: string;
            /**
             * @description The name of the token; for a configuration file that of the process.
             * @default null
             */
            actor_name: string | null;
            /**
             * @description The subject of the client's certificate.
             * @default null
             */
            certificate: string | null;
            /**
             * @description The address and port from which the request came.
             * @default null
             */
            address: string | null;
            /**
             * @description What was done: the `operationId` of the route.
             * @default
             */
            action: string;
            /**
             * @description To which destination.
             * @default null
             */
            destination: string | null;
            /**
             * @description To which topic, token, message or operation.
             * @default null
             */
            target: string | null;
            /**
             * Format: int64
             * @description How many messages, definitions or tokens it changed.
             * @default 0
             */
            affected: number;
            /**
             * @description `succeeded`; the code of the error; for a bulk operation its state; `unfinished` if the client left before
             *     the answer; `not_written` if a configuration file did not change what runs.
             * @default
             */
            outcome: string;
            /**
             * @description The id of the bulk operation.
             * @default null
             */
            operation: string | null;
            /**
             * @description True if it only counted.
             * @default false
             */
            dry_run: boolean;
            /**
             * @description The `x-request-id` of the request.
             * @default null
             */
            request_id: string | null;
        };
        /**
         * @description The format of a batch.
         * @enum {string}
         */
        BatchFormat: "json" | "ndjson";
        /**
         * @description Why the head is still there.
         * @enum {string}
         */
        BlockedBy: "nothing" | "draining" | "damaged" | "halted" | "withdrawing" | "delayed" | "backoff" | "no_processor" | "awaiting_processor" | "awaiting_worker" | "transform_rate_limit" | "processing" | "paused" | "no_owner" | "takeover_wait" | "rate_limit" | "awaiting_connection" | "receiver_failing" | "awaiting_consumer" | "consuming" | "delivering" | "redis" | "redis_refuses_writes";
        /** @description The output of one message: `body`, or `body_base64`, or `drop`. */
        CompleteItem: {
            token: string;
            /** @description The output, as JSON. */
            body?: unknown;
            /** @description The output, in base64. */
            body_base64?: string | null;
            /** @description The content type of `body_base64`. */
            content_type?: string | null;
            /** @description True: the message is not delivered. */
            drop?: boolean;
        };
        /** @description What to take. */
        ConsumeRequest: {
            /**
             * @description At most this many messages.
             * @default 1
             */
            max: number;
            /**
             * Format: int64
             * @description Wait up to this long if there is nothing to take.
             */
            wait_ms?: number;
            consumer?: null | components["schemas"]["WorkerName"];
        };
        /** @description A message under a consumer's lease. */
        ConsumedMessage: {
            /** @description Names the message and the lease in later calls. */
            token: string;
            destination: components["schemas"]["DestinationName"];
            /** @description Messages with the same lane stay in order: its key, or the sequence without ordering. */
            lane: string;
            /** Format: int64 */
            sequence: number;
            /** Format: int64 */
            epoch: number;
            /**
             * Format: int64
             * @description The sequence of the message before it in its lane, if it is known.
             */
            previous?: number | null;
            id: string;
            key?: string | null;
            /** Format: int32 */
            attempt: number;
            last_error?: null | components["schemas"]["LastError"];
            /** Format: date-time */
            expires_at: string;
            content_type: string;
            headers: {
                [key: string]: string;
            };
            body?: unknown;
            body_base64?: string | null;
        };
        /** @description Messages under a consumer's lease. Those of a lane are in order. */
        ConsumedMessages: {
            /**
             * Format: int64
             * @description How long a lease lasts, from this answer or its extension on.
             */
            lease_ms: number;
            deliveries: components["schemas"]["ConsumedMessage"][];
        };
        /** @description A dead letter. */
        DeadLetter: components["schemas"]["MessageFields"] & components["schemas"]["MessageContent"] & {
            state: components["schemas"]["State"];
            /** Format: date-time */
            dead_lettered_at: string;
            stage: components["schemas"]["Stage"];
            reason: string;
        };
        /** @description A field that differs between two definitions. Secrets are masked. */
        DefinitionChange: {
            /** @description Its path, such as `delivery.lanes_max`. */
            field: string;
            /** @description Its value before; null if there was none. */
            before: unknown;
            /** @description Its value after the change; null if there is none. */
            after: unknown;
        };
        /** @description What a definition would change. */
        DefinitionDiff: {
            destination: components["schemas"]["DestinationName"];
            /** @description False if it would be created. The changes are then those from the defaults. */
            exists: boolean;
            changes: components["schemas"]["DefinitionChange"][];
        };
        /** @description How messages are delivered. */
        Delivery: {
            /** @default push */
            kind: components["schemas"]["DeliveryKind"];
            /**
             * Format: int64
             * @description Time limit of one attempt, in milliseconds. With `pull`: how long the lease of a consumer lasts,
             *     unless it is extended.
             * @default 15000
             */
            timeout_ms: number;
            /**
             * Format: int32
             * @description Lanes in flight at once.
             * @default 64
             */
            lanes_max: number;
            /**
             * Format: int32
             * @description The most deliveries started per second; 0: no limit.
             * @default 0
             */
            rate_per_second_max: number;
            /**
             * Format: int32
             * @description The message is given up (`on_exhausted`) after this many failed attempts; 0: never.
             * @default 0
             */
            attempts_max: number;
            /**
             * Format: int64
             * @description The upper limit of the first wait between attempts, in milliseconds.
             * @default 200
             */
            backoff_ms: number;
            /**
             * Format: int64
             * @description The longest wait between attempts, in milliseconds.
             * @default 30000
             */
            backoff_max_ms: number;
            /**
             * Format: int64
             * @description The longest `Retry-After` that is honoured, in milliseconds.
             * @default 3600000
             */
            retry_after_max_ms: number;
            /**
             * Format: int32
             * @description After this many failed deliveries in a row, of several messages, one at a time probes the receiver until it
             *     accepts one; 0: never.
             * @default 10
             */
            breaker_failures: number;
            /**
             * Format: int32
             * @description HTTP: the most messages per request; 1: no batches.
             * @default 1
             */
            batch_max: number;
            /**
             * Format: int64
             * @description The most bytes of bodies in one batch or window (at least one message is sent).
             * @default 1048576
             */
            batch_bytes_max: number;
            /**
             * Format: int64
             * @description HTTP: how long a batch that is not full waits for more, in milliseconds.
             * @default 0
             */
            batch_linger_ms: number;
            /** @default json */
            batch_format: components["schemas"]["BatchFormat"];
            /**
             * Format: int32
             * @description TCP: the most unanswered frames of one lane.
             * @default 1
             */
            window_max: number;
            /** @default lines */
            framing: components["schemas"]["Framing"];
            /** @default none */
            envelope: components["schemas"]["Envelope"];
            /** @default line */
            ack: components["schemas"]["Ack"];
        };
        /**
         * @description Who gets the messages of a destination.
         * @enum {string}
         */
        DeliveryKind: "push" | "pull" | "none";
        /** @description A destination: its definition, and what Reseq adds. */
        Destination: {
            /** @description Its name: `[a-z0-9._-]{1,64}`. */
            name: components["schemas"]["DestinationName"];
            /**
             * @description The receiver: `http://`, `https://`, `tcp://host:port` or `tls://host:port`. Required, unless
             *     `delivery.kind` is another than `push`.
             */
            url?: string | null;
            /** @description Static headers sent with each delivery (HTTP only), such as `authorization`. */
            headers?: {
                [key: string]: string;
            };
            sign?: null | components["schemas"]["Sign"];
            verify?: null | components["schemas"]["Verify"];
            /** @description Which headers travel with a message: names in lower case, or their beginning and a `*`. */
            forward_headers?: string[];
            key_from?: null | components["schemas"]["KeySource"];
            idempotency_key_from?: null | components["schemas"]["KeySource"];
            /** @description How messages are processed before they are delivered. */
            transform?: components["schemas"]["Transform"];
            /** @description How they are delivered. */
            delivery?: components["schemas"]["Delivery"];
            /** @description What stays in order. */
            ordering?: components["schemas"]["Ordering"];
            /** @description How many messages of a lane are processed at a time. */
            processing?: components["schemas"]["Processing"];
            /** @description What happens to a message when its attempts are used up. */
            on_exhausted?: components["schemas"]["OnExhausted"];
            /** @description Where a message must be before its producer gets an acknowledgement. */
            durability?: components["schemas"]["Durability"];
            /**
             * Format: int32
             * @description Its share of the processors' claims, relative to other destinations.
             */
            weight?: number;
            /**
             * Format: int64
             * @description Ingest refuses messages beyond this number of pending ones.
             */
            backlog_max?: number;
            /**
             * Format: int64
             * @description Ingest refuses messages beyond this number of pending bytes of bodies; 0: no limit.
             */
            backlog_bytes_max?: number;
            /**
             * Format: int32
             * @description The most messages in one second that each ingest process takes for it; 0: no limit.
             */
            ingest_rate_per_second_max?: number;
            /**
             * Format: int64
             * @description How long an idempotency key is remembered, in milliseconds; 0: while the message that used
             *     it is pending.
             */
            idempotency_window_ms?: number;
            /**
             * Format: int64
             * @description Ingest refuses messages with an idempotency key beyond this number of keys within the window.
             */
            idempotency_keys_max?: number;
            /** @description What a repeat under an idempotency key must have in common with the first message. */
            idempotency_compare?: components["schemas"]["IdempotencyCompare"];
            /**
             * Format: int64
             * @description The most sources whose marks it keeps.
             */
            sources_max?: number;
            /**
             * Format: int64
             * @description How many of the last settled messages the log keeps; 0: no log.
             */
            log_max?: number;
            /** @description True if the log also keeps bodies as they arrived, which a replay needs. */
            log_bodies?: boolean;
            /**
             * Format: int64
             * @description The most dead letters. At the limit, a message that would become one halts its lane instead.
             *     0: no limit.
             */
            dead_letters_max?: number;
            /**
             * Format: int64
             * @description How long a dead letter is kept, in milliseconds; 0: until it is redriven or discarded.
             */
            dead_letters_age_max_ms?: number;
            /**
             * Format: int64
             * @description With ordering by key: for how many keys without pending messages the last sequence is
             *     remembered (the most recent ones); 0: for none.
             */
            previous_keys_max?: number;
            /**
             * Format: int64
             * @description How many of the last messages are found by their id; 0: none. Beyond 1,000 there is an index.
             */
            ids_max?: number;
            /** Format: int64 */
            version: number;
            /** Format: int32 */
            partition: number;
            defined_in_file: boolean;
            paused: components["schemas"]["Paused"];
        };
        /** @description The definition of a destination, as in `[[destination]]` and in `PUT /v1/destinations/{d}`. */
        DestinationDefinition: {
            /** @description Its name: `[a-z0-9._-]{1,64}`. */
            name?: components["schemas"]["DestinationName"];
            /**
             * @description The receiver: `http://`, `https://`, `tcp://host:port` or `tls://host:port`. Required, unless
             *     `delivery.kind` is another than `push`.
             */
            url?: string | null;
            /** @description Static headers sent with each delivery (HTTP only), such as `authorization`. */
            headers?: {
                [key: string]: string;
            };
            sign?: null | components["schemas"]["Sign"];
            verify?: null | components["schemas"]["Verify"];
            /** @description Which headers travel with a message: names in lower case, or their beginning and a `*`. */
            forward_headers?: string[];
            key_from?: null | components["schemas"]["KeySource"];
            idempotency_key_from?: null | components["schemas"]["KeySource"];
            /** @description How messages are processed before they are delivered. */
            transform?: components["schemas"]["Transform"];
            /** @description How they are delivered. */
            delivery?: components["schemas"]["Delivery"];
            /** @description What stays in order. */
            ordering?: components["schemas"]["Ordering"];
            /** @description How many messages of a lane are processed at a time. */
            processing?: components["schemas"]["Processing"];
            /** @description What happens to a message when its attempts are used up. */
            on_exhausted?: components["schemas"]["OnExhausted"];
            /** @description Where a message must be before its producer gets an acknowledgement. */
            durability?: components["schemas"]["Durability"];
            /**
             * Format: int32
             * @description Its share of the processors' claims, relative to other destinations.
             */
            weight?: number;
            /**
             * Format: int64
             * @description Ingest refuses messages beyond this number of pending ones.
             */
            backlog_max?: number;
            /**
             * Format: int64
             * @description Ingest refuses messages beyond this number of pending bytes of bodies; 0: no limit.
             */
            backlog_bytes_max?: number;
            /**
             * Format: int32
             * @description The most messages in one second that each ingest process takes for it; 0: no limit.
             */
            ingest_rate_per_second_max?: number;
            /**
             * Format: int64
             * @description How long an idempotency key is remembered, in milliseconds; 0: while the message that used
             *     it is pending.
             */
            idempotency_window_ms?: number;
            /**
             * Format: int64
             * @description Ingest refuses messages with an idempotency key beyond this number of keys within the window.
             */
            idempotency_keys_max?: number;
            /** @description What a repeat under an idempotency key must have in common with the first message. */
            idempotency_compare?: components["schemas"]["IdempotencyCompare"];
            /**
             * Format: int64
             * @description The most sources whose marks it keeps.
             */
            sources_max?: number;
            /**
             * Format: int64
             * @description How many of the last settled messages the log keeps; 0: no log.
             */
            log_max?: number;
            /** @description True if the log also keeps bodies as they arrived, which a replay needs. */
            log_bodies?: boolean;
            /**
             * Format: int64
             * @description The most dead letters. At the limit, a message that would become one halts its lane instead.
             *     0: no limit.
             */
            dead_letters_max?: number;
            /**
             * Format: int64
             * @description How long a dead letter is kept, in milliseconds; 0: until it is redriven or discarded.
             */
            dead_letters_age_max_ms?: number;
            /**
             * Format: int64
             * @description With ordering by key: for how many keys without pending messages the last sequence is
             *     remembered (the most recent ones); 0: for none.
             */
            previous_keys_max?: number;
            /**
             * Format: int64
             * @description How many of the last messages are found by their id; 0: none. Beyond 1,000 there is an index.
             */
            ids_max?: number;
        };
        /** @description A destination's name: `[a-z0-9._-]{1,64}`. */
        DestinationName: string;
        /** @description Its numbers, or why there are none. */
        DestinationNumbers: components["schemas"]["Stats"] | {
            /** @description What cannot be read. */
            damaged: string[];
            attention: components["schemas"]["Attention"][];
        } | {
            /** @description Why Redis did not answer. */
            not_read: string;
        };
        /** @description Any field of the definition; null stands for the default. */
        DestinationPatch: {
            name?: null | components["schemas"]["DestinationName"];
            url?: null | (string | null);
            headers?: null | {
                [key: string]: string | null;
            };
            sign?: null | {
                secrets?: null | string[];
            };
            verify?: null | {
                kind?: null | components["schemas"]["VerifyKind"];
                secrets?: null | string[];
                tolerance_ms?: null | (number | null);
                header?: null | (string | null);
                algorithm?: null | (null | components["schemas"]["HmacAlgorithm"]);
                encoding?: null | (null | components["schemas"]["SignatureEncoding"]);
                prefix?: null | (string | null);
                timestamp_header?: null | (string | null);
                id_header?: null | (string | null);
                signed?: null | (string | null);
            };
            forward_headers?: null | string[];
            key_from?: null | (null | components["schemas"]["KeySource"]);
            idempotency_key_from?: null | (null | components["schemas"]["KeySource"]);
            transform?: null | {
                kind?: null | components["schemas"]["TransformKind"];
                url?: null | (string | null);
                name?: null | (string | null);
                expression?: null | (string | null);
                headers?: null | {
                    [key: string]: string | null;
                };
                timeout_ms?: null | number;
                attempt_ms_max?: null | number;
                concurrency?: null | number;
                rate_per_second_max?: null | number;
                burst?: null | number;
                attempts_max?: null | number;
                stalls_max?: null | number;
                backoff_ms?: null | number;
                backoff_max_ms?: null | number;
                retry_after_max_ms?: null | number;
            };
            delivery?: null | {
                kind?: null | components["schemas"]["DeliveryKind"];
                timeout_ms?: null | number;
                lanes_max?: null | number;
                rate_per_second_max?: null | number;
                attempts_max?: null | number;
                backoff_ms?: null | number;
                backoff_max_ms?: null | number;
                retry_after_max_ms?: null | number;
                breaker_failures?: null | number;
                batch_max?: null | number;
                batch_bytes_max?: null | number;
                batch_linger_ms?: null | number;
                batch_format?: null | components["schemas"]["BatchFormat"];
                window_max?: null | number;
                framing?: null | components["schemas"]["Framing"];
                envelope?: null | components["schemas"]["Envelope"];
                ack?: null | components["schemas"]["Ack"];
            };
            ordering?: null | components["schemas"]["Ordering"];
            processing?: null | components["schemas"]["Processing"];
            on_exhausted?: null | components["schemas"]["OnExhausted"];
            durability?: null | components["schemas"]["Durability"];
            weight?: null | number;
            backlog_max?: null | number;
            backlog_bytes_max?: null | number;
            ingest_rate_per_second_max?: null | number;
            idempotency_window_ms?: null | number;
            idempotency_keys_max?: null | number;
            idempotency_compare?: null | components["schemas"]["IdempotencyCompare"];
            sources_max?: null | number;
            log_max?: null | number;
            log_bodies?: null | boolean;
            dead_letters_max?: null | number;
            dead_letters_age_max_ms?: null | number;
            previous_keys_max?: null | number;
            ids_max?: null | number;
        };
        /** @description One destination. */
        DestinationStats: components["schemas"]["DestinationNumbers"] & {
            name: components["schemas"]["DestinationName"];
        };
        /** @description A definition that a destination has, or had. */
        DestinationVersion: {
            /** Format: int64 */
            version: number;
            /** Format: date-time */
            written_at: string;
            /** @description Who wrote it, as in the audit log; `configuration_file` for the file of a process; empty if it is not known. */
            actor: string;
            /** @description The name of the token; for a configuration file that of the process. */
            actor_name?: string | null;
            /** @description What differs from the version before it, if that is kept. Changes of secrets are left out. */
            changes?: components["schemas"]["DefinitionChange"][] | null;
            /** @description The definition, with secrets masked. */
            definition: Record<string, never>;
        };
        /** @enum {string} */
        DiscardState: "discarded";
        /** @description The discarded dead letter. */
        Discarded: {
            /** Format: int64 */
            sequence: number;
            state: components["schemas"]["DiscardState"];
        };
        /**
         * @description Where a message must be before its producer gets an acknowledgement.
         * @enum {string}
         */
        Durability: "memory" | "replicated" | "quorum" | "fsynced";
        /**
         * @description The content of a frame on a TCP connection.
         * @enum {string}
         */
        Envelope: "none" | "json";
        /**
         * @description The kind of error.
         * @enum {string}
         */
        ErrorKind: "status" | "timeout" | "connection" | "rejected" | "failed" | "stalled" | "unsendable" | "damaged";
        /** @description A lease to extend. */
        ExtendItem: {
            token: string;
            /**
             * Format: int64
             * @description How long the lease lasts from now.
             * @default 30000
             */
            lease_ms: number;
            /** @description The checkpoint for the next attempt; if omitted, the earlier one stays. */
            checkpoint?: unknown;
        };
        /** @description A failed attempt. */
        FailItem: {
            token: string;
            /** @description What went wrong; the first 2 kB are kept. */
            error?: string;
            /** @description True: no further attempt can succeed. */
            final?: boolean;
            /**
             * Format: int64
             * @description How long to wait before the next attempt; the backoff of the definition if absent.
             */
            retry_ms?: number | null;
        };
        /** @description A failed attempt. */
        Failure: {
            /** Format: date-time */
            occurred_at: string;
            stage: components["schemas"]["Stage"];
            kind: components["schemas"]["ErrorKind"];
            /** Format: int32 */
            status?: number | null;
            detail: string;
        };
        /** @description A filter for dead letters. Omitted fields match everything. */
        Filter: {
            /** @description With this ordering key; `""`: without one. */
            key?: string | null;
            stage?: null | components["schemas"]["Stage"];
            from_sequence?: null | number;
            to_sequence?: null | number;
            /** @description Dead letters since this time (RFC 3339). */
            from_time?: string | null;
            /** @description Dead letters until this time (RFC 3339). */
            to_time?: string | null;
            /** @description With this text in the reason, or in the detail of one of the errors. */
            error?: string | null;
        };
        /** @description Something that an operator should know. */
        Finding: {
            severity: components["schemas"]["Severity"];
            /** @description The check that found it: one of `checks`. */
            check: string;
            /** @description What it is about: a server, a pod, a destination; empty for the whole deployment. */
            subject: string;
            /** @description What was found, in one sentence. */
            summary: string;
            /** @description What to do. */
            action: string;
        };
        /** @description The problems of one kind. */
        Found: {
            /** @description The kind. */
            kind: string;
            /** @description What it means, and what the repair does. */
            detail: string;
            /**
             * Format: int64
             * @description How many were found.
             */
            matched: number;
            /**
             * Format: int64
             * @description How many of them were repaired.
             */
            affected: number;
            /** @description Sequences, keys of Redis or names of counters. */
            examples: string[];
        };
        /**
         * @description How frames on a TCP connection are separated.
         * @enum {string}
         */
        Framing: "lines" | "length";
        /** @description A message that is gone. */
        GoneMessage: {
            /** Format: int64 */
            sequence: number;
            /** Format: int64 */
            epoch: number;
            id: string;
            key?: string | null;
            state: components["schemas"]["State"];
            /** Format: date-time */
            received_at: string;
            /** Format: date-time */
            settled_at: string;
            /** Format: int32 */
            attempts: number;
            latency: components["schemas"]["Latency"];
            dead_letter: boolean;
        };
        /** @description What a token allows. */
        Grant: {
            /** @description What its holder may do. */
            scopes: components["schemas"]["Scope"][];
            /** @description With which destinations; all if absent. */
            destinations?: components["schemas"]["DestinationName"][] | null;
            /**
             * Format: int32
             * @description The most messages in one second that each process takes from its holder; 0: no limit.
             */
            rate_per_second_max?: number;
        };
        /** @description A lane's head, and what it waits for. */
        Head: {
            /**
             * Format: int64
             * @description Its sequence.
             */
            sequence: number;
            /** @description Its ordering key, with ordering by key. */
            key?: string | null;
            /** @description Its state. */
            state: components["schemas"]["State"];
            /**
             * Format: int64
             * @description How long ago it arrived, in milliseconds.
             */
            age_ms: number;
            /** @description What it waits for: `transform`, `delivery`, its `delay`, or an `operator`. */
            blocked_by: string;
            /**
             * Format: int32
             * @description Failed attempts in the stage that it waits for.
             */
            attempts: number;
            /**
             * Format: int32
             * @description Leases on it that expired.
             */
            stalls: number;
            /**
             * Format: int64
             * @description How long it has been halted, in milliseconds.
             */
            halted_for_ms?: number | null;
            last_error?: null | components["schemas"]["AttemptError"];
        };
        /** @description A message and its state now. */
        HeadState: {
            /** Format: int64 */
            sequence: number;
            state: components["schemas"]["State"];
        };
        /** @description A message that a consumer holds. */
        HeldItem: {
            token: string;
        };
        /**
         * @description The hash function of an HMAC.
         * @enum {string}
         */
        HmacAlgorithm: "sha1" | "sha256" | "sha384" | "sha512";
        /**
         * @description What makes a message that arrives under a known idempotency key a repeat.
         * @enum {string}
         */
        IdempotencyCompare: "body" | "key";
        /**
         * @description One invalid part of a request, and what is wrong with it. Has one of `pointer`, `parameter` and
         *     `header`; none of them if no single parameter or header is to blame.
         */
        InvalidPart: {
            /** @description The part of the body, as a JSON Pointer in a URI fragment (RFC 6901, section 6). */
            pointer?: string | null;
            /** @description The parameter of the query or of the path. */
            parameter?: string | null;
            /** @description The header of the request. */
            header?: string | null;
            /** @description What is wrong. */
            detail: string;
        };
        /** @description A page of a list. */
        Items_AuditEntry: {
            items: (components["schemas"]["AuditedAction"] & {
                id: string;
                /**
                 * Format: date-time
                 * @description The time of Redis.
                 */
                occurred_at: string;
            })[];
            /** @description The `cursor` of the next page; null on the last. */
            next_cursor?: string | null;
        };
        /** @description A page of a list. */
        Items_DeadLetter: {
            items: (components["schemas"]["MessageFields"] & components["schemas"]["MessageContent"] & {
                state: components["schemas"]["State"];
                /** Format: date-time */
                dead_lettered_at: string;
                stage: components["schemas"]["Stage"];
                reason: string;
            })[];
            /** @description The `cursor` of the next page; null on the last. */
            next_cursor?: string | null;
        };
        /** @description A page of a list. */
        Items_Destination: {
            items: {
                /** @description Its name: `[a-z0-9._-]{1,64}`. */
                name: components["schemas"]["DestinationName"];
                /**
                 * @description The receiver: `http://`, `https://`, `tcp://host:port` or `tls://host:port`. Required, unless
                 *     `delivery.kind` is another than `push`.
                 */
                url?: string | null;
                /** @description Static headers sent with each delivery (HTTP only), such as `authorization`. */
                headers?: {
                    [key: string]: string;
                };
                sign?: null | components["schemas"]["Sign"];
                verify?: null | components["schemas"]["Verify"];
                /** @description Which headers travel with a message: names in lower case, or their beginning and a `*`. */
                forward_headers?: string[];
                key_from?: null | components["schemas"]["KeySource"];
                idempotency_key_from?: null | components["schemas"]["KeySource"];
                /** @description How messages are processed before they are delivered. */
                transform?: components["schemas"]["Transform"];
                /** @description How they are delivered. */
                delivery?: components["schemas"]["Delivery"];
                /** @description What stays in order. */
                ordering?: components["schemas"]["Ordering"];
                /** @description How many messages of a lane are processed at a time. */
                processing?: components["schemas"]["Processing"];
                /** @description What happens to a message when its attempts are used up. */
                on_exhausted?: components["schemas"]["OnExhausted"];
                /** @description Where a message must be before its producer gets an acknowledgement. */
                durability?: components["schemas"]["Durability"];
                /**
                 * Format: int32
                 * @description Its share of the processors' claims, relative to other destinations.
                 */
                weight?: number;
                /**
                 * Format: int64
                 * @description Ingest refuses messages beyond this number of pending ones.
                 */
                backlog_max?: number;
                /**
                 * Format: int64
                 * @description Ingest refuses messages beyond this number of pending bytes of bodies; 0: no limit.
                 */
                backlog_bytes_max?: number;
                /**
                 * Format: int32
                 * @description The most messages in one second that each ingest process takes for it; 0: no limit.
                 */
                ingest_rate_per_second_max?: number;
                /**
                 * Format: int64
                 * @description How long an idempotency key is remembered, in milliseconds; 0: while the message that used
                 *     it is pending.
                 */
                idempotency_window_ms?: number;
                /**
                 * Format: int64
                 * @description Ingest refuses messages with an idempotency key beyond this number of keys within the window.
                 */
                idempotency_keys_max?: number;
                /** @description What a repeat under an idempotency key must have in common with the first message. */
                idempotency_compare?: components["schemas"]["IdempotencyCompare"];
                /**
                 * Format: int64
                 * @description The most sources whose marks it keeps.
                 */
                sources_max?: number;
                /**
                 * Format: int64
                 * @description How many of the last settled messages the log keeps; 0: no log.
                 */
                log_max?: number;
                /** @description True if the log also keeps bodies as they arrived, which a replay needs. */
                log_bodies?: boolean;
                /**
                 * Format: int64
                 * @description The most dead letters. At the limit, a message that would become one halts its lane instead.
                 *     0: no limit.
                 */
                dead_letters_max?: number;
                /**
                 * Format: int64
                 * @description How long a dead letter is kept, in milliseconds; 0: until it is redriven or discarded.
                 */
                dead_letters_age_max_ms?: number;
                /**
                 * Format: int64
                 * @description With ordering by key: for how many keys without pending messages the last sequence is
                 *     remembered (the most recent ones); 0: for none.
                 */
                previous_keys_max?: number;
                /**
                 * Format: int64
                 * @description How many of the last messages are found by their id; 0: none. Beyond 1,000 there is an index.
                 */
                ids_max?: number;
                /** Format: int64 */
                version: number;
                /** Format: int32 */
                partition: number;
                defined_in_file: boolean;
                paused: components["schemas"]["Paused"];
            }[];
            /** @description The `cursor` of the next page; null on the last. */
            next_cursor?: string | null;
        };
        /** @description A page of a list. */
        Items_DestinationVersion: {
            items: {
                /** Format: int64 */
                version: number;
                /** Format: date-time */
                written_at: string;
                /** @description Who wrote it, as in the audit log; `configuration_file` for the file of a process; empty if it is not known. */
                actor: string;
                /** @description The name of the token; for a configuration file that of the process. */
                actor_name?: string | null;
                /** @description What differs from the version before it, if that is kept. Changes of secrets are left out. */
                changes?: components["schemas"]["DefinitionChange"][] | null;
                /** @description The definition, with secrets masked. */
                definition: Record<string, never>;
            }[];
            /** @description The `cursor` of the next page; null on the last. */
            next_cursor?: string | null;
        };
        /** @description A page of a list. */
        Items_LogEntry: {
            items: (components["schemas"]["GoneMessage"] | components["schemas"]["Unreadable"])[];
            /** @description The `cursor` of the next page; null on the last. */
            next_cursor?: string | null;
        };
        /** @description A page of a list. */
        Items_Operation: {
            items: (components["schemas"]["OperationDetails"] & {
                id: string;
                kind: components["schemas"]["OperationKind"];
                destination: components["schemas"]["DestinationName"];
                state: components["schemas"]["OperationState"];
                /** @description True if it only counts. */
                dry_run: boolean;
                /** Format: date-time */
                started_at: string;
                /** Format: date-time */
                updated_at: string;
                /**
                 * Format: int64
                 * @description Messages that the request selects, or problems that it has found, as far as it has got.
                 */
                matched: number;
                /**
                 * Format: int64
                 * @description Messages that it has purged, redriven, discarded, replayed or retried; problems repaired.
                 */
                affected: number;
                /**
                 * Format: int64
                 * @description Messages with which that was not possible.
                 */
                failed: number;
                problem?: null | components["schemas"]["Problem"];
            })[];
            /** @description The `cursor` of the next page; null on the last. */
            next_cursor?: string | null;
        };
        /** @description A page of a list. */
        Items_PendingMessage: {
            items: (components["schemas"]["MessageFields"] & components["schemas"]["MessageContent"] & {
                state: components["schemas"]["State"];
                /** Format: int64 */
                age_ms?: number | null;
                /** Format: date-time */
                due_at?: string | null;
                /** Format: date-time */
                halted_at?: string | null;
                /** Format: int32 */
                priority?: number | null;
                withdrawing: boolean;
                asked_later?: null | components["schemas"]["AskedLater"];
                lease?: null | components["schemas"]["MessageLease"];
            })[];
            /** @description The `cursor` of the next page; null on the last. */
            next_cursor?: string | null;
        };
        /** @description A page of a list. */
        Items_Pod: {
            items: {
                /** @description Its unique name; a lease of a built-in transform names it. */
                pod: string;
                /** @description The name of its machine or container. */
                host: string;
                /** @description `ingest`, `processor`, `sender`. */
                roles: string[];
                /** @description Its version; null until its second heartbeat. */
                version?: string | null;
                /** @description Where it listens for HTTP, as configured; null until its second heartbeat. */
                address?: string | null;
                /**
                 * Format: date-time
                 * @description When it started; null until its second heartbeat.
                 */
                started_at?: string | null;
                /**
                 * Format: int32
                 * @description The newest schema that it knows.
                 */
                schema: number;
                /**
                 * Format: int64
                 * @description How far its clock is ahead of that of Redis, in seconds; 0 up to one second.
                 */
                clock_ahead_s: number;
                /**
                 * Format: date-time
                 * @description It counts as dead from then on, unless it sends another heartbeat (once a second).
                 */
                expires_at: string;
                /** @description The partitions that it owns: it delivers to their destinations. */
                partitions: number[];
                /** @description True for the process that answers. */
                is_self: boolean;
            }[];
            /** @description The `cursor` of the next page; null on the last. */
            next_cursor?: string | null;
        };
        /** @description A page of a list. */
        Items_RemovedDefinition: {
            items: {
                name: components["schemas"]["DestinationName"];
                /** Format: int64 */
                version: number;
                /** Format: date-time */
                removed_at: string;
                /** @description Who removed it, as in the audit log; empty if it is not known. */
                actor: string;
                /** @description The name of the token. */
                actor_name?: string | null;
                /** @description The definition, with secrets masked. */
                definition: Record<string, never>;
            }[];
            /** @description The `cursor` of the next page; null on the last. */
            next_cursor?: string | null;
        };
        /** @description A page of a list. */
        Items_Token: {
            items: (components["schemas"]["Grant"] & {
                id: string;
                name: string;
                /** Format: date-time */
                created_at: string;
                /**
                 * Format: date-time
                 * @description Null: never.
                 */
                expires_at?: string | null;
                expired: boolean;
                /**
                 * Format: date-time
                 * @description Null: not that anybody noted; up to some seconds late.
                 */
                last_used_at?: string | null;
            })[];
            /** @description The `cursor` of the next page; null on the last. */
            next_cursor?: string | null;
        };
        /** @description A page of a list. */
        Items_Topic: {
            items: {
                name: components["schemas"]["TopicName"];
                destinations: components["schemas"]["DestinationName"][];
                defined_in_file: boolean;
            }[];
            /** @description The `cursor` of the next page; null on the last. */
            next_cursor?: string | null;
        };
        /** @description The part of a message that holds its ordering key or its idempotency key. */
        KeySource: {
            /** @description The value of this header. */
            header: string;
        } | {
            /** @description The output of this `jq` expression for the body. */
            jq: string;
        };
        /** @description A lane that holds messages. */
        Lane: {
            /** @description Its ordering key; null where the destination is one lane. */
            key?: string | null;
            /**
             * Format: int64
             * @description Messages that have not left.
             */
            pending: number;
            /**
             * Format: int64
             * @description Those of them that are processed.
             */
            ready: number;
            head?: null | components["schemas"]["PendingMessage"];
        };
        /** @description The largest lanes of the part of Redis's keys that this call visited. */
        Lanes: {
            /** @description With `none`, each message is a lane of its own, and none is listed. */
            ordering: components["schemas"]["Ordering"];
            /** @description Those with the most pending messages first. */
            items: components["schemas"]["Lane"][];
            /** @description The `cursor` of the next part; null on the last. */
            next_cursor?: string | null;
            /**
             * Format: double
             * @description Which share of the keys is visited, 0 to 1; null if that is not known (in a cluster).
             */
            progress?: number | null;
        };
        LastError: components["schemas"]["AttemptError"] & {
            occurred_at: string;
        };
        Latency: {
            /** Format: int64 */
            waited_ms?: number | null;
            /** Format: int64 */
            processing_ms?: number | null;
            /** Format: int64 */
            delivery_ms: number;
            /** Format: int64 */
            total_ms: number;
        };
        /** @description A message under a worker's lease. */
        Lease: {
            /** @description Names the lease in later calls. */
            token: string;
            destination: components["schemas"]["DestinationName"];
            /** Format: int64 */
            sequence: number;
            /** Format: int64 */
            epoch: number;
            id: string;
            key?: string | null;
            /** Format: int32 */
            attempt: number;
            /** @description True if it may have crashed its last workers: process no other suspect in the same process. */
            suspect?: boolean;
            /** @description The checkpoint of the last attempt. */
            checkpoint?: unknown;
            /** @description The checkpoint in base64, if some JSON parsers would refuse it. */
            checkpoint_base64?: string | null;
            last_error?: null | components["schemas"]["LastError"];
            /** Format: date-time */
            expires_at: string;
            content_type: string;
            headers: {
                [key: string]: string;
            };
            body?: unknown;
            body_base64?: string | null;
        };
        /** @description What to do with claimed messages. */
        LeaseItems_CompleteItem: {
            items: {
                token: string;
                /** @description The output, as JSON. */
                body?: unknown;
                /** @description The output, in base64. */
                body_base64?: string | null;
                /** @description The content type of `body_base64`. */
                content_type?: string | null;
                /** @description True: the message is not delivered. */
                drop?: boolean;
            }[];
        };
        /** @description What to do with claimed messages. */
        LeaseItems_ExtendItem: {
            items: {
                token: string;
                /**
                 * Format: int64
                 * @description How long the lease lasts from now.
                 * @default 30000
                 */
                lease_ms: number;
                /** @description The checkpoint for the next attempt; if omitted, the earlier one stays. */
                checkpoint?: unknown;
            }[];
        };
        /** @description What to do with claimed messages. */
        LeaseItems_FailItem: {
            items: {
                token: string;
                /** @description What went wrong; the first 2 kB are kept. */
                error?: string;
                /** @description True: no further attempt can succeed. */
                final?: boolean;
                /**
                 * Format: int64
                 * @description How long to wait before the next attempt; the backoff of the definition if absent.
                 */
                retry_ms?: number | null;
            }[];
        };
        /** @description What to do with claimed messages. */
        LeaseItems_HeldItem: {
            items: {
                token: string;
            }[];
        };
        /** @description What to do with claimed messages. */
        LeaseItems_RefuseItem: {
            items: {
                token: string;
                /** @description What went wrong; the first 2 kB are kept. */
                error?: string;
                /** @description True: no further attempt can succeed. */
                final?: boolean;
                /**
                 * Format: int64
                 * @description How long to wait before the next attempt; the backoff of the definition if absent.
                 */
                retry_ms?: number | null;
            }[];
        };
        /** @description What to do with claimed messages. */
        LeaseItems_RequeueItem: {
            items: {
                token: string;
                /**
                 * Format: int64
                 * @description How long to wait until somebody gets the message again; 0: not at all. A message may wait like this 1,000 times.
                 */
                delay_ms?: number;
            }[];
        };
        /** @description What to claim. */
        LeaseRequest: {
            /** @description Destinations whose transform is `worker`. */
            destinations: components["schemas"]["DestinationName"][];
            /**
             * @description At most this many messages.
             * @default 1
             */
            max: number;
            /**
             * @description At least this many, or none. Above 1 only with one destination.
             * @default 1
             */
            min: number;
            /**
             * Format: int64
             * @description Wait up to this long if there is nothing to claim.
             */
            wait_ms?: number;
            worker?: null | components["schemas"]["WorkerName"];
            /**
             * @description False while the process holds a suspect (`suspect`): it gets no other one.
             * @default true
             */
            suspects: boolean;
            /**
             * Format: int64
             * @description How long the lease lasts.
             * @default 30000
             */
            lease_ms: number;
        };
        LeaseResult: {
            token: string;
            status: components["schemas"]["LeaseStatus"];
            /** @description When the extended lease expires. */
            expires_at?: string | null;
            /** @description What happens to the message if its attempts are used up. */
            exhausted?: string | null;
            /** @description With `attempt_timeout`: what happened, and what to do. */
            detail?: string | null;
        };
        /** @description One result for each item, in order. */
        LeaseResults: {
            results: components["schemas"]["LeaseResult"][];
        };
        /**
         * @description The result of a script for one lease.
         * @enum {string}
         */
        LeaseStatus: "ok" | "halted" | "stale_lease" | "settled" | "damaged" | "attempt_timeout";
        /** @description Claimed messages. */
        Leases: {
            leases: components["schemas"]["Lease"][];
            /** @description Destinations that allow no claim because their data in Redis is damaged. */
            damaged?: components["schemas"]["DestinationName"][];
        };
        /** @description An entry of the log. */
        LogEntry: components["schemas"]["GoneMessage"] | components["schemas"]["Unreadable"];
        /** @description A message: pending, gone, or a dead letter whose log entry is gone. */
        Message: components["schemas"]["PendingMessage"] | components["schemas"]["GoneMessage"] | components["schemas"]["DeadLetter"];
        /** @description Fields that only the view of one message has. */
        MessageContent: {
            previous?: null | number;
            headers?: {
                [key: string]: string;
            } | null;
            /** @description The body, if it is JSON. */
            body?: unknown;
            /** @description Any other body. */
            body_base64?: string | null;
            /** @description The last errors. */
            errors?: components["schemas"]["Failure"][] | null;
            /** @description True if a worker saved a checkpoint. */
            checkpoint?: boolean | null;
        };
        /** @description The fields of every message. */
        MessageFields: {
            /** Format: int64 */
            sequence: number;
            /** Format: int64 */
            epoch: number;
            id: string;
            key?: string | null;
            /**
             * Format: date-time
             * @description Absent if Redis has too little of the message to tell.
             */
            received_at?: string | null;
            /** Format: int32 */
            attempts: number;
            /** Format: int32 */
            stalls: number;
            /** Format: int64 */
            bytes: number;
            content_type: string;
            origin?: null | components["schemas"]["Origin"];
            last_error?: null | components["schemas"]["Failure"];
            /** @description Why the message cannot be read; absent if it can. */
            damaged?: string | null;
        };
        /** @description A message of a destination. */
        MessageFound: {
            destination: components["schemas"]["DestinationName"];
            message: components["schemas"]["Message"];
        };
        /** @description The lease on a message that is being processed, or that a consumer holds. */
        MessageLease: {
            worker?: null | components["schemas"]["WorkerName"];
            consumer?: null | components["schemas"]["WorkerName"];
            /**
             * Format: date-time
             * @description The lease expires then, unless it is extended.
             */
            expires_at: string;
        };
        /** @description The result of a message. */
        MessageResult: {
            /** Format: int64 */
            sequence: number;
            /** Format: int64 */
            epoch: number;
            id: string;
            state: components["schemas"]["ResultState"];
            content_type?: string | null;
            /** @description The output, if it is JSON. */
            body?: unknown;
            /** @description Any other output. */
            body_base64?: string | null;
            error?: null | components["schemas"]["Failure"];
            /** @description Why there is no output. */
            detail?: string | null;
        };
        /** @description The source of a message, as its producer writes it. */
        MessageSource: {
            /** @description Its name, such as a table, or a partition of a topic. */
            name: string;
            /** @description Where the message is in it. Positions are compared byte by byte. */
            position: string;
            /** @description The position of the message before: the message is stored only after it. */
            after?: string | null;
            /** @description Store nothing; only move the mark to this position. */
            skip?: boolean;
        };
        /** @description The messages with an id, one for each destination that has one. */
        MessagesFound: {
            items: components["schemas"]["MessageFound"][];
        };
        /** @description The object as sent: with `destinations` or a `topic`, and with a `body` or a `body_base64`. */
        NewMessage: {
            /** @description Where the message goes. */
            destinations?: string[] | null;
            /** @description Publish to the destinations of this topic. */
            topic?: string | null;
            /** @description The body, as JSON. */
            body?: unknown;
            /** @description The body, in base64. */
            body_base64?: string | null;
            /** @description The content type of `body_base64`. */
            content_type?: string | null;
            /** @description An id of your own; a UUID if absent. */
            id?: string | null;
            /** @description The ordering key. */
            key?: string | null;
            /** @description A repeat with this key stores nothing. */
            idempotency_key?: string | null;
            /** @description Headers that travel with the message. Each destination says which may (`forward_headers`). */
            headers?: {
                [key: string]: string;
            };
            /**
             * Format: int64
             * @description Process the message only after this time has passed.
             */
            delay_ms?: number | null;
            /**
             * Format: date-time
             * @description Process the message only after this instant.
             */
            due_at?: string | null;
            /**
             * Format: int64
             * @description 9 goes first. Only without ordering.
             */
            priority?: number | null;
            /** @description Keep the output for 60 s, for whoever asks for the result. */
            keep_result?: boolean | null;
            /**
             * Format: int64
             * @description The most attempts at processing; not more than the destination allows.
             */
            attempts_max?: number | null;
            /**
             * Format: int64
             * @description The upper limit of the first wait after a failed attempt; not more than the longest wait of the destination.
             */
            backoff_ms?: number | null;
            source?: null | components["schemas"]["MessageSource"];
        };
        /** @description A message's old and new position. */
        NewPosition: {
            /** Format: int64 */
            sequence: number;
            /** Format: int64 */
            new_sequence: number;
            /** Format: int64 */
            epoch: number;
        };
        /** @description A new token. */
        NewToken: components["schemas"]["Token"] & {
            /** @description The token itself. It is shown only here, and Redis has only its SHA-256. */
            token: string;
        };
        /** @description A check that could not be made, or only in part. It has neither passed nor failed. */
        NotChecked: {
            /** @description One of `checks`. */
            check: string;
            /** @description Why, in one sentence. */
            reason: string;
        };
        /**
         * @description What happens to a message when its attempts are used up, or when it can never succeed.
         * @enum {string}
         */
        OnExhausted: "halt" | "dead_letter" | "drop";
        /** @description A bulk operation. */
        Operation: components["schemas"]["OperationDetails"] & {
            id: string;
            kind: components["schemas"]["OperationKind"];
            destination: components["schemas"]["DestinationName"];
            state: components["schemas"]["OperationState"];
            /** @description True if it only counts. */
            dry_run: boolean;
            /** Format: date-time */
            started_at: string;
            /** Format: date-time */
            updated_at: string;
            /**
             * Format: int64
             * @description Messages that the request selects, or problems that it has found, as far as it has got.
             */
            matched: number;
            /**
             * Format: int64
             * @description Messages that it has purged, redriven, discarded, replayed or retried; problems repaired.
             */
            affected: number;
            /**
             * Format: int64
             * @description Messages with which that was not possible.
             */
            failed: number;
            problem?: null | components["schemas"]["Problem"];
        };
        /** @description What only some kinds have. */
        OperationDetails: {
            /**
             * @description `purge` with `dry_run`: the selected messages by state.
             * @default {}
             */
            by_state: {
                [key: string]: number;
            };
            /**
             * Format: int64
             * @description `purge`: those of `affected` that leave when their attempt has ended.
             * @default null
             */
            withdrawing: number | null;
            /**
             * Format: int64
             * @description `redrive`, `discard`: named dead letters that do not exist (any more).
             * @default null
             */
            gone: number | null;
            /**
             * Format: int64
             * @description `replay`: stored before under the same idempotency key.
             * @default null
             */
            duplicates: number | null;
            /**
             * Format: int64
             * @description `replay`: entries of the log without a body.
             * @default null
             */
            without_body: number | null;
            /** @default null */
            first_sequence: null | number;
            /** @default null */
            last_sequence: null | number;
            /** @default null */
            new_first_sequence: null | number;
            /** @default null */
            new_last_sequence: null | number;
            /**
             * @description `redrive`: the new positions of the first 1,000.
             * @default []
             */
            deliveries: components["schemas"]["NewPosition"][];
            /**
             * @description `repair`: what it found, by kind.
             * @default null
             */
            items: components["schemas"]["Found"][] | null;
            /**
             * @description `repair`: false if something kept it from comparing everything: repair again.
             * @default null
             */
            counters_verified: boolean | null;
        };
        /**
         * @description What an operation does.
         * @enum {string}
         */
        OperationKind: "purge" | "redrive" | "discard" | "replay" | "retry_heads" | "run_now" | "repair";
        /**
         * @description How far an operation is.
         * @enum {string}
         */
        OperationState: "running" | "succeeded" | "failed" | "cancelled" | "interrupted";
        /**
         * @description What must stay in order.
         * @enum {string}
         */
        Ordering: "destination" | "key" | "none";
        /** @description The original of a redriven or replayed message. */
        Origin: {
            destination: components["schemas"]["DestinationName"];
            /** Format: int64 */
            epoch: number;
            /** Format: int64 */
            sequence: number;
        };
        /** @description What to pause or to resume; everything if `what` is absent. */
        Pause: {
            what?: null | components["schemas"]["PausedPart"];
        };
        /** @description What is paused now. */
        PauseState: {
            paused: components["schemas"]["Paused"];
        };
        /** @description Which parts of a destination are paused. */
        Paused: {
            /** @description Ingest refuses messages. */
            ingest: boolean;
            /** @description Nobody can claim a message. */
            processing: boolean;
            /** @description The sender sends nothing. */
            delivery: boolean;
        };
        /**
         * @description A part of a destination.
         * @enum {string}
         */
        PausedPart: "delivery" | "ingest" | "processing";
        /** @description A pending message. */
        PendingMessage: components["schemas"]["MessageFields"] & components["schemas"]["MessageContent"] & {
            state: components["schemas"]["State"];
            /** Format: int64 */
            age_ms?: number | null;
            /** Format: date-time */
            due_at?: string | null;
            /** Format: date-time */
            halted_at?: string | null;
            /** Format: int32 */
            priority?: number | null;
            withdrawing: boolean;
            asked_later?: null | components["schemas"]["AskedLater"];
            lease?: null | components["schemas"]["MessageLease"];
        };
        /** @description A live process of Reseq. */
        Pod: {
            /** @description Its unique name; a lease of a built-in transform names it. */
            pod: string;
            /** @description The name of its machine or container. */
            host: string;
            /** @description `ingest`, `processor`, `sender`. */
            roles: string[];
            /** @description Its version; null until its second heartbeat. */
            version?: string | null;
            /** @description Where it listens for HTTP, as configured; null until its second heartbeat. */
            address?: string | null;
            /**
             * Format: date-time
             * @description When it started; null until its second heartbeat.
             */
            started_at?: string | null;
            /**
             * Format: int32
             * @description The newest schema that it knows.
             */
            schema: number;
            /**
             * Format: int64
             * @description How far its clock is ahead of that of Redis, in seconds; 0 up to one second.
             */
            clock_ahead_s: number;
            /**
             * Format: date-time
             * @description It counts as dead from then on, unless it sends another heartbeat (once a second).
             */
            expires_at: string;
            /** @description The partitions that it owns: it delivers to their destinations. */
            partitions: number[];
            /** @description True for the process that answers. */
            is_self: boolean;
        };
        /** @description A problem as its JSON (RFC 9457). */
        Problem: {
            /** @description The path of a page that explains the code. */
            type: string;
            /** @description What the code means, in a few words. */
            title: string;
            /**
             * Format: int32
             * @description The HTTP status.
             */
            status: number;
            /** @description The stable code that clients may rely on. */
            code: string;
            /** @description What happened and what to do, for people. */
            detail: string;
            /** @description The invalid parts of the request. */
            errors?: components["schemas"]["InvalidPart"][];
            /** @description The `x-request-id` of the request. Absent in a line of a batch. */
            request_id?: string | null;
            /**
             * Format: int64
             * @description Seconds until the same request may succeed.
             */
            retry_after?: number | null;
            id?: string;
            /** @description The copies of the message that were stored. */
            deliveries?: components["schemas"]["StoredCopy"][];
            operation?: components["schemas"]["Operation"];
            mark?: null | string;
        };
        /**
         * @description How many messages of a lane are processed at a time.
         * @enum {string}
         */
        Processing: "parallel" | "serial";
        /** @description What to purge. */
        PurgeRequest: {
            /** @description Only count. */
            dry_run?: boolean;
            /** @description Only with this ordering key; `""`: without one. */
            key?: string | null;
        };
        /** @description A message that a consumer refuses. */
        RefuseItem: {
            token: string;
            /** @description What went wrong; the first 2 kB are kept. */
            error?: string;
            /** @description True: no further attempt can succeed. */
            final?: boolean;
            /**
             * Format: int64
             * @description How long to wait before the next attempt; the backoff of the definition if absent.
             */
            retry_ms?: number | null;
        };
        /** @description A destination that was removed. */
        Removed: {
            removed: components["schemas"]["DestinationName"];
            /**
             * Format: int64
             * @description Pending messages that were removed with it.
             */
            removed_messages: number;
        };
        /** @description The definition of a removed destination. */
        RemovedDefinition: {
            name: components["schemas"]["DestinationName"];
            /** Format: int64 */
            version: number;
            /** Format: date-time */
            removed_at: string;
            /** @description Who removed it, as in the audit log; empty if it is not known. */
            actor: string;
            /** @description The name of the token. */
            actor_name?: string | null;
            /** @description The definition, with secrets masked. */
            definition: Record<string, never>;
        };
        /** @description A source whose mark was to be forgotten. */
        RemovedSource: {
            name: string;
            /** @description False if it had no mark. */
            removed: boolean;
        };
        /** @description A topic that was removed. */
        RemovedTopic: {
            removed: components["schemas"]["TopicName"];
        };
        /** @description How to repair. */
        RepairRequest: {
            /** @description Find, but change nothing. */
            dry_run?: boolean;
        };
        /** @description What to replay, and where to. */
        ReplayRequest: {
            from_sequence?: null | number;
            to_sequence?: null | number;
            /** @description Delivered since this time (RFC 3339). */
            from_time?: string | null;
            /** @description Delivered until this time (RFC 3339). */
            to_time?: string | null;
            to_destination?: null | components["schemas"]["DestinationName"];
            /**
             * Format: int32
             * @description At most so many messages a second; as fast as possible if absent.
             */
            rate_per_second?: number | null;
            /** @description Only count. */
            dry_run?: boolean;
            /** @description A repeat with this key enqueues nothing twice; also as the header `Idempotency-Key`. */
            idempotency_key?: string | null;
        };
        /** @description What was checked, and what was found. */
        Report: {
            /** @description The pod that answers: the clock, the rights and the damage are those that it knows. */
            pod: string;
            /** @description Its version. */
            version: string;
            /**
             * Format: int32
             * @description The newest schema that it knows.
             */
            schema: number;
            /** Format: date-time */
            checked_at: string;
            /** @description The names of all checks. A check has passed if it has no finding and is not in `not_checked`. */
            checks: string[];
            /** @description The worst first. */
            findings: components["schemas"]["Finding"][];
            not_checked: components["schemas"]["NotChecked"][];
        };
        /** @description A message to return unprocessed. */
        RequeueItem: {
            token: string;
            /**
             * Format: int64
             * @description How long to wait until somebody gets the message again; 0: not at all. A message may wait like this 1,000 times.
             */
            delay_ms?: number;
        };
        /**
         * @description How far the processing of a message is.
         * @enum {string}
         */
        ResultState: "pending" | "processed" | "dropped" | "failed" | "cancelled" | "not_kept";
        /** @description The head that was retried; with `all`, the operation. */
        Retried: components["schemas"]["HeadState"] | components["schemas"]["Operation"];
        /** @description Which head to retry, and with which body. */
        RetryHead: {
            /** @description With ordering by key: the lane. */
            key?: string | null;
            sequence?: null | number;
            /** @description A repaired body, as JSON. */
            body?: unknown;
            /** @description A repaired body, in base64. */
            body_base64?: string | null;
            /** @description The content type of `body_base64`. */
            content_type?: string | null;
            /** @description True: all heads that are halted or in backoff, in place of one. */
            all?: boolean;
            /**
             * Format: int32
             * @description With `all`: at most so many a second; as fast as possible if absent.
             */
            rate_per_second?: number | null;
        };
        /** @description A token that was revoked. */
        RevokedToken: {
            revoked: string;
        };
        /** @description Which version a rollback takes. */
        Rollback: {
            /**
             * Format: int64
             * @description One of the kept versions; if absent, the one before the current.
             * @default null
             */
            to: number | null;
        };
        /** @description Which delayed messages to make due. */
        RunNowRequest: {
            /** @description Only count. */
            dry_run?: boolean;
            /** @description Only with this ordering key; `""`: without one. */
            key?: string | null;
        };
        /**
         * @description What a caller may do.
         * @enum {string}
         */
        Scope: "ingest" | "work" | "read" | "operate" | "admin";
        /**
         * @description The body of a redrive or a discard.
         *     Has exactly one of `sequences`, `all` and `filter`.
         */
        Selection: {
            /** @description The dead letters with these sequences. */
            sequences?: number[] | null;
            /** @description True: all of the destination. */
            all?: boolean;
            filter?: null | components["schemas"]["Filter"];
            /** @description Only count. */
            dry_run?: boolean;
            /**
             * Format: int32
             * @description Redrive: at most so many a second; as fast as possible if absent.
             */
            rate_per_second?: number | null;
        };
        /**
         * @description How bad a finding is.
         * @enum {string}
         */
        Severity: "error" | "warning" | "info";
        /** @description How deliveries are signed: as Standard Webhooks say. */
        Sign: {
            /**
             * @description `whsec_…` for `v1` (HMAC-SHA256), `whsk_…` for `v1a` (Ed25519). Each makes a signature, so that a
             *     receiver may know the old or the new secret while it changes.
             */
            secrets: string[];
        };
        /**
         * @description How a signature is written.
         * @enum {string}
         */
        SignatureEncoding: "hex" | "base64" | "base64_url";
        /** @description Which head to skip. */
        SkipHead: {
            /** @description With ordering by key: the lane. */
            key?: string | null;
            /**
             * Format: int64
             * @description The head; refused if another message is it, so that a repeat skips no other.
             */
            sequence: number;
        };
        /** @description A source whose messages arrived. */
        Source: {
            name: string;
            /** @description The position of its last message. */
            mark: string;
        };
        /** @description All sources of a destination. */
        Sources: {
            /** @description In the order of their names; at most `sources_max`. */
            items: components["schemas"]["Source"][];
        };
        /**
         * @description The stage of an attempt.
         * @enum {string}
         */
        Stage: "transform" | "delivery";
        /**
         * @description The state of a message.
         * @enum {string}
         */
        State: "waiting" | "processing" | "delayed" | "ready" | "delivering" | "halted" | "damaged" | "delivered" | "dropped" | "dead_lettered" | "cancelled";
        /** @description A destination's numbers, read at one instant. */
        Stats: {
            /**
             * Format: int64
             * @description The last sequence stamped.
             */
            last_sequence: number;
            /**
             * Format: int64
             * @description Messages that are not gone: the sum of the next six. Together with the totals of gone
             *     messages it equals `last_sequence`.
             */
            pending: number;
            /**
             * Format: int64
             * @description Messages that wait for processing.
             */
            waiting: number;
            /**
             * Format: int64
             * @description Messages under a lease.
             */
            processing: number;
            /**
             * Format: int64
             * @description Messages that are processed, or need not be, and wait for their turn to be delivered.
             */
            ready: number;
            /**
             * Format: int64
             * @description Messages in delivery.
             */
            delivering: number;
            /**
             * Format: int64
             * @description Messages whose attempts are used up: their lanes wait for an operator.
             */
            halted: number;
            /**
             * Format: int64
             * @description Messages that may not be processed yet, or wait for their backoff.
             */
            delayed: number;
            /**
             * Format: int64
             * @description The bytes of the pending messages' bodies, as they arrived.
             */
            pending_bytes: number;
            /**
             * Format: int64
             * @description Dead letters. They are not pending.
             */
            dead_letters: number;
            /**
             * Format: int64
             * @description Messages that receivers have accepted.
             */
            delivered_total: number;
            /**
             * Format: int64
             * @description Messages that their transform or a policy dropped.
             */
            dropped_total: number;
            /**
             * Format: int64
             * @description Messages that became dead letters.
             */
            dead_lettered_total: number;
            /**
             * Format: int64
             * @description Messages that were cancelled.
             */
            cancelled_total: number;
            /** @description Which parts are paused. */
            paused: components["schemas"]["Paused"];
            /**
             * @description Unreadable fields of the destination's hash, and unreadable keys. Their numbers are 0, and
             *     numbers derived from them are wrong.
             */
            damaged?: string[];
            /** @description Why it needs attention, the worst first; empty if it is well. */
            attention: components["schemas"]["Attention"][];
            head?: null | components["schemas"]["Head"];
            /** @description If there are many lanes, the oldest heads. */
            heads?: components["schemas"]["Head"][];
        };
        /** @description The copy of a message in one destination. */
        StoredCopy: {
            destination: components["schemas"]["DestinationName"];
            /** Format: int64 */
            sequence: number;
            /** Format: int64 */
            epoch: number;
            /**
             * @description True if the message had been stored before, under the same idempotency key or from the same position of its
             *     source (then sequence and epoch are 0: they are not known); or if it only moves the mark of its source.
             */
            duplicate: boolean;
            /** @description The level that the message has reached. */
            durability: components["schemas"]["Durability"];
            /** @description For a duplicate under an idempotency key: the id of the first message. */
            id?: string | null;
        };
        /** @description A token, without its secret. */
        Token: components["schemas"]["Grant"] & {
            id: string;
            name: string;
            /** Format: date-time */
            created_at: string;
            /**
             * Format: date-time
             * @description Null: never.
             */
            expires_at?: string | null;
            expired: boolean;
            /**
             * Format: date-time
             * @description Null: not that anybody noted; up to some seconds late.
             */
            last_used_at?: string | null;
        };
        /** @description A token to make. */
        TokenRequest: {
            /** @description What it is for. */
            name: string;
            /** @description What its holder may do. */
            scopes: components["schemas"]["Scope"][];
            /** @description With which destinations; all if absent. */
            destinations?: components["schemas"]["DestinationName"][] | null;
            /**
             * Format: int64
             * @description It ends after this time; never if absent.
             */
            expires_in_ms?: number | null;
            /**
             * Format: int32
             * @description The most messages in one second that each process takes from its holder; 0: no limit.
             */
            rate_per_second_max?: number;
        };
        /** @description A topic, as the API shows it. */
        Topic: {
            name: components["schemas"]["TopicName"];
            destinations: components["schemas"]["DestinationName"][];
            defined_in_file: boolean;
        };
        /** @description The definition of a topic, as PUT takes it. */
        TopicDefinition: {
            name?: null | components["schemas"]["TopicName"];
            /** @description Each gets a copy of what is published. */
            destinations: components["schemas"]["DestinationName"][];
        };
        /** @description A topic's name: `[a-z0-9._-]{1,64}`, like a destination's. */
        TopicName: string;
        /** @description Sums over all destinations. */
        Totals: {
            /** Format: int64 */
            pending: number;
            /** Format: int64 */
            waiting: number;
            /** Format: int64 */
            processing: number;
            /** Format: int64 */
            ready: number;
            /** Format: int64 */
            delivering: number;
            /** Format: int64 */
            halted: number;
            /** Format: int64 */
            delayed: number;
            /** Format: int64 */
            pending_bytes: number;
            /** Format: int64 */
            dead_letters: number;
            /** Format: int64 */
            delivered_total: number;
            /** Format: int64 */
            dropped_total: number;
            /** Format: int64 */
            dead_lettered_total: number;
            /** Format: int64 */
            cancelled_total: number;
            /**
             * Format: int64
             * @description How many destinations need attention. One whose server does not answer is one of them.
             */
            needs_attention: number;
        };
        /** @description How messages are processed. */
        Transform: {
            /** @default none */
            kind: components["schemas"]["TransformKind"];
            /**
             * @description `http`: the URL that gets the body by POST.
             * @default null
             */
            url: string | null;
            /**
             * @description `native`: the name that the Rust transform was registered under.
             * @default null
             */
            name: string | null;
            /**
             * @description `jq`: the expression.
             * @default null
             */
            expression: string | null;
            /** @default {} */
            headers: {
                [key: string]: string;
            };
            /**
             * Format: int64
             * @description Time limit of one attempt, in milliseconds.
             * @default 30000
             */
            timeout_ms: number;
            /**
             * Format: int64
             * @description `worker`: an attempt that extends its lease fails this many milliseconds after it began or last saved a
             *     checkpoint; 0: never.
             * @default 3600000
             */
            attempt_ms_max: number;
            /**
             * Format: int32
             * @description Attempts at once in one processor pod.
             * @default 64
             */
            concurrency: number;
            /**
             * Format: int32
             * @description The most attempts started per second, over all processors and workers; 0: no limit.
             * @default 0
             */
            rate_per_second_max: number;
            /**
             * Format: int32
             * @description How many of these attempts may start at once, after a time without any.
             * @default 1
             */
            burst: number;
            /**
             * Format: int32
             * @description The message is given up (`on_exhausted`) after this many failed attempts; 0: never.
             * @default 10
             */
            attempts_max: number;
            /**
             * Format: int32
             * @description The message is given up after this many expired leases (its processors died); 0: never.
             * @default 5
             */
            stalls_max: number;
            /**
             * Format: int64
             * @description The upper limit of the first wait between attempts, in milliseconds.
             * @default 200
             */
            backoff_ms: number;
            /**
             * Format: int64
             * @description The longest wait between attempts, in milliseconds.
             * @default 30000
             */
            backoff_max_ms: number;
            /**
             * Format: int64
             * @description The longest `Retry-After` that is honoured, in milliseconds.
             * @default 3600000
             */
            retry_after_max_ms: number;
        };
        /**
         * @description Who processes a destination's messages.
         * @enum {string}
         */
        TransformKind: "none" | "http" | "worker" | "jq" | "native";
        /** @description A log entry that cannot be read. */
        Unreadable: {
            /** Format: int64 */
            sequence: number;
            /** @description Why. */
            damaged: string;
        };
        /** @description How the signatures of arriving requests are verified. */
        Verify: {
            /** @description Who signs, and how. */
            kind: components["schemas"]["VerifyKind"];
            /** @description A signature of one of these secrets is enough, so that a secret can be changed without a pause. */
            secrets: string[];
            /**
             * Format: int64
             * @description How far the time of a signature may be from now, in milliseconds; 5 minutes if absent. Only where a
             *     time is signed.
             */
            tolerance_ms?: number | null;
            /** @description `hmac`: the header with the signature. */
            header?: string | null;
            algorithm?: null | components["schemas"]["HmacAlgorithm"];
            encoding?: null | components["schemas"]["SignatureEncoding"];
            /** @description `hmac`: the text before the signature in its header, such as `sha256=`. */
            prefix?: string | null;
            /** @description `hmac`: the header with the time of the signature. */
            timestamp_header?: string | null;
            /** @description `hmac`: the header with the id of the message. It becomes the idempotency key, if it is signed. */
            id_header?: string | null;
            /** @description `hmac`: the text that is signed, with `{body}`, `{timestamp}` and `{id}`. */
            signed?: string | null;
        };
        /**
         * @description Who signs, and how.
         * @enum {string}
         */
        VerifyKind: "standard_webhooks" | "stripe" | "github" | "hmac";
        /** @description What blocks a lane. */
        Why: {
            destination: components["schemas"]["DestinationName"];
            /** @description The lane's ordering key, with ordering by key. */
            key?: string | null;
            cause: components["schemas"]["BlockedBy"];
            /** @description The cause in one sentence. */
            explanation: string;
            head?: null | components["schemas"]["PendingMessage"];
            /**
             * Format: int64
             * @description How long it has been the head, in milliseconds; absent if that is not known (any more).
             */
            blocked_ms?: number | null;
            /**
             * @description Of this time, the milliseconds by cause, since the head was first sampled. Absent if another process samples the
             *     lane, or none yet.
             */
            blocked_ms_by_cause?: {
                [key: string]: number;
            } | null;
            /**
             * Format: date-time
             * @description The head's next attempt begins then, if it waits for one.
             */
            next_attempt_at?: string | null;
            /**
             * Format: int64
             * @description How many messages of the lane wait behind the head.
             */
            behind: number;
            /**
             * Format: int64
             * @description The bytes of their bodies; absent where a destination has several lanes.
             */
            bytes_behind?: number | null;
            /** @description The pod that delivers this destination's messages; absent if there is none. */
            owner?: string | null;
            /**
             * Format: date-time
             * @description When the owner last reported that it is alive.
             */
            owner_seen_at?: string | null;
            /** @description What is known of the whole destination, in sentences. */
            summary: string[];
            /** @description What an operator can do. */
            actions: components["schemas"]["Action"][];
        };
        /** @description The result of a withdrawal. */
        Withdrawal: {
            /** Format: int64 */
            sequence: number;
            state: components["schemas"]["WithdrawalState"];
            /** @description What a message that is still withdrawing waits for. */
            detail?: string | null;
        };
        /**
         * @description The state of a message that is withdrawn.
         * @enum {string}
         */
        WithdrawalState: "cancelled" | "dead_lettered" | "dropped" | "withdrawing";
        /** @description The name of who holds a lease: a worker's own, or that of a pod. `[A-Za-z0-9._:@-]{1,64}` */
        WorkerName: string;
    };
    responses: {
        /** @description - `wrong_state`: Not possible in this state */
        AwaitsResultConflict: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /**
         * @description - `unknown_destination`: Unknown destination
         *     - `unknown_message`: Unknown message
         */
        AwaitsResultNotFound: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /**
         * @description - `invalid_request`: Invalid request
         *     - `invalid_field`: Invalid field
         */
        BadRequest: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /**
         * @description - `invalid_request`: Invalid request
         *     - `invalid_field`: Invalid field
         *     - `invalid_json`: Invalid JSON
         *     - `invalid_body`: Incomplete body
         */
        ChangesBadRequest: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description - `wrong_state`: Not possible in this state */
        ChangesConflict: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description - `wrong_state`: Not possible in this state */
        ChangesMessageConflict: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /**
         * @description - `unknown_destination`: Unknown destination
         *     - `unknown_message`: Unknown message
         */
        ChangesMessageNotFound: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /**
         * @description - `redis_unavailable`: Redis unavailable
         *     - `redis_refuses_writes`: Redis refuses writes
         *     - `no_rights`: Missing Redis right
         *     - `newer_schema`: Newer schema
         *     - `no_secrets_key`: Key of secrets missing
         *     - `connections_full`: Too many connections
         *     - `memory_high`: Redis memory high
         *     - `not_confirmed`: Not confirmed
         */
        ChangesMessageServiceUnavailable: {
            headers: {
                /** @description Seconds until the request may succeed */
                "Retry-After"?: number;
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /**
         * @description - `unknown_destination`: Unknown destination
         *     - `unknown_message`: Unknown message
         */
        ChangesNotFound: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description - `body_too_large`: Body too large */
        ChangesPayloadTooLarge: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description - `body_timeout`: Body too slow */
        ChangesRequestTimeout: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /**
         * @description - `redis_unavailable`: Redis unavailable
         *     - `redis_refuses_writes`: Redis refuses writes
         *     - `no_rights`: Missing Redis right
         *     - `newer_schema`: Newer schema
         *     - `no_secrets_key`: Key of secrets missing
         *     - `connections_full`: Too many connections
         *     - `memory_high`: Redis memory high
         *     - `not_confirmed`: Not confirmed
         *     - `draining`: Process stopping
         */
        ChangesServiceUnavailable: {
            headers: {
                /** @description Seconds until the request may succeed */
                "Retry-After"?: number;
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /**
         * @description - `too_many_requests`: Too many requests at once
         *     - `backlog_full`: Backlog full
         */
        ChangesTooManyRequests: {
            headers: {
                /** @description Seconds until the request may succeed */
                "Retry-After"?: number;
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /**
         * @description - `unauthorized`: No valid token
         *     - `no_signature`: No signature
         */
        ChangesUnauthorized: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /**
         * @description - `invalid_request`: Invalid request
         *     - `invalid_field`: Invalid field
         *     - `invalid_json`: Invalid JSON
         *     - `invalid_body`: Incomplete body
         */
        DefinesDestinationBadRequest: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /**
         * @description - `wrong_state`: Not possible in this state
         *     - `defined_in_file`: Defined in the configuration file
         */
        DefinesDestinationConflict: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description - `unknown_destination`: Unknown destination */
        DefinesDestinationNotFound: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description - `body_too_large`: Body too large */
        DefinesDestinationPayloadTooLarge: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description - `wrong_version`: Changed meanwhile */
        DefinesDestinationPreconditionFailed: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description - `body_timeout`: Body too slow */
        DefinesDestinationRequestTimeout: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /**
         * @description - `redis_unavailable`: Redis unavailable
         *     - `redis_refuses_writes`: Redis refuses writes
         *     - `no_rights`: Missing Redis right
         *     - `newer_schema`: Newer schema
         *     - `no_secrets_key`: Key of secrets missing
         *     - `connections_full`: Too many connections
         *     - `memory_high`: Redis memory high
         *     - `not_confirmed`: Not confirmed
         */
        DefinesDestinationServiceUnavailable: {
            headers: {
                /** @description Seconds until the request may succeed */
                "Retry-After"?: number;
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description - `refused_address`: Address not allowed */
        DefinesDestinationUnprocessableEntity: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /**
         * @description - `invalid_request`: Invalid request
         *     - `invalid_field`: Invalid field
         *     - `invalid_json`: Invalid JSON
         *     - `invalid_body`: Incomplete body
         */
        DefinesTopicBadRequest: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /**
         * @description - `wrong_state`: Not possible in this state
         *     - `defined_in_file`: Defined in the configuration file
         */
        DefinesTopicConflict: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /**
         * @description - `unknown_destination`: Unknown destination
         *     - `unknown_topic`: Unknown topic
         */
        DefinesTopicNotFound: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description - `body_too_large`: Body too large */
        DefinesTopicPayloadTooLarge: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description - `body_timeout`: Body too slow */
        DefinesTopicRequestTimeout: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /**
         * @description - `redis_unavailable`: Redis unavailable
         *     - `redis_refuses_writes`: Redis refuses writes
         *     - `no_rights`: Missing Redis right
         *     - `newer_schema`: Newer schema
         *     - `no_secrets_key`: Key of secrets missing
         *     - `connections_full`: Too many connections
         *     - `memory_high`: Redis memory high
         *     - `not_confirmed`: Not confirmed
         */
        DefinesTopicServiceUnavailable: {
            headers: {
                /** @description Seconds until the request may succeed */
                "Retry-After"?: number;
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /**
         * @description - `forbidden`: Not allowed
         *     - `forbidden_origin`: Not from this machine or page
         */
        Forbidden: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /**
         * @description - `invalid_request`: Invalid request
         *     - `invalid_field`: Invalid field
         *     - `invalid_json`: Invalid JSON
         *     - `invalid_body`: Incomplete body
         */
        IngestsBadRequest: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /**
         * @description - `invalid_request`: Invalid request
         *     - `invalid_field`: Invalid field
         *     - `invalid_json`: Invalid JSON
         *     - `invalid_body`: Incomplete body
         */
        IngestsBatchBadRequest: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
                "application/x-ndjson": string;
            };
        };
        /**
         * @description - `source_gap`: Not the next message of its source
         *     - `sources_full`: Too many sources
         */
        IngestsBatchConflict: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
                "application/x-ndjson": string;
            };
        };
        /**
         * @description - `forbidden`: Not allowed
         *     - `forbidden_origin`: Not from this machine or page
         */
        IngestsBatchForbidden: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
                "application/x-ndjson": string;
            };
        };
        /**
         * @description - `damaged`: Damaged data
         *     - `unreadable`: Unreadable data
         */
        IngestsBatchInternalServerError: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
                "application/x-ndjson": string;
            };
        };
        /**
         * @description - `unknown_destination`: Unknown destination
         *     - `unknown_topic`: Unknown topic
         *     - `not_found`: Unknown path
         */
        IngestsBatchNotFound: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
                "application/x-ndjson": string;
            };
        };
        /** @description - `body_too_large`: Body too large */
        IngestsBatchPayloadTooLarge: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
                "application/x-ndjson": string;
            };
        };
        /** @description - `body_timeout`: Body too slow */
        IngestsBatchRequestTimeout: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
                "application/x-ndjson": string;
            };
        };
        /**
         * @description - `redis_unavailable`: Redis unavailable
         *     - `redis_refuses_writes`: Redis refuses writes
         *     - `no_rights`: Missing Redis right
         *     - `newer_schema`: Newer schema
         *     - `no_secrets_key`: Key of secrets missing
         *     - `connections_full`: Too many connections
         *     - `memory_high`: Redis memory high
         *     - `not_confirmed`: Not confirmed
         *     - `cannot_confirm`: Durability not available
         *     - `aborted`: Earlier message failed
         *     - `key_unavailable`: Key not found in time
         *     - `no_room`: Too many bytes in flight
         *     - `draining`: Process stopping
         */
        IngestsBatchServiceUnavailable: {
            headers: {
                /** @description Seconds until the request may succeed */
                "Retry-After"?: number;
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
                "application/x-ndjson": string;
            };
        };
        /**
         * @description - `too_many_requests`: Too many requests at once
         *     - `backlog_full`: Backlog full
         *     - `rate_limited`: Too many messages in a second
         *     - `paused`: Ingest paused
         */
        IngestsBatchTooManyRequests: {
            headers: {
                /** @description Seconds until the request may succeed */
                "Retry-After"?: number;
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
                "application/x-ndjson": string;
            };
        };
        /** @description - `uri_too_long`: URI too long */
        IngestsBatchURITooLong: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
                "application/x-ndjson": string;
            };
        };
        /**
         * @description - `unauthorized`: No valid token
         *     - `no_signature`: No signature
         *     - `invalid_signature`: Signature not valid
         *     - `timestamp_outside_tolerance`: Signed too long ago
         */
        IngestsBatchUnauthorized: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
                "application/x-ndjson": string;
            };
        };
        /**
         * @description - `idempotency_conflict`: Idempotency key used before
         *     - `no_key`: No key in the message
         */
        IngestsBatchUnprocessableEntity: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
                "application/x-ndjson": string;
            };
        };
        /** @description - `unsupported_media_type`: Unsupported media type */
        IngestsBatchUnsupportedMediaType: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
                "application/x-ndjson": string;
            };
        };
        /**
         * @description - `source_gap`: Not the next message of its source
         *     - `sources_full`: Too many sources
         */
        IngestsConflict: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /**
         * @description - `unknown_destination`: Unknown destination
         *     - `unknown_topic`: Unknown topic
         *     - `not_found`: Unknown path
         */
        IngestsNotFound: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description - `body_too_large`: Body too large */
        IngestsPayloadTooLarge: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description - `body_timeout`: Body too slow */
        IngestsRequestTimeout: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /**
         * @description - `redis_unavailable`: Redis unavailable
         *     - `redis_refuses_writes`: Redis refuses writes
         *     - `no_rights`: Missing Redis right
         *     - `newer_schema`: Newer schema
         *     - `no_secrets_key`: Key of secrets missing
         *     - `connections_full`: Too many connections
         *     - `memory_high`: Redis memory high
         *     - `not_confirmed`: Not confirmed
         *     - `cannot_confirm`: Durability not available
         *     - `aborted`: Earlier message failed
         *     - `key_unavailable`: Key not found in time
         *     - `no_room`: Too many bytes in flight
         *     - `draining`: Process stopping
         */
        IngestsServiceUnavailable: {
            headers: {
                /** @description Seconds until the request may succeed */
                "Retry-After"?: number;
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /**
         * @description - `too_many_requests`: Too many requests at once
         *     - `backlog_full`: Backlog full
         *     - `rate_limited`: Too many messages in a second
         *     - `paused`: Ingest paused
         */
        IngestsTooManyRequests: {
            headers: {
                /** @description Seconds until the request may succeed */
                "Retry-After"?: number;
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /**
         * @description - `unauthorized`: No valid token
         *     - `no_signature`: No signature
         *     - `invalid_signature`: Signature not valid
         *     - `timestamp_outside_tolerance`: Signed too long ago
         */
        IngestsUnauthorized: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /**
         * @description - `idempotency_conflict`: Idempotency key used before
         *     - `no_key`: No key in the message
         */
        IngestsUnprocessableEntity: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description - `unsupported_media_type`: Unsupported media type */
        IngestsUnsupportedMediaType: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /**
         * @description - `damaged`: Damaged data
         *     - `unreadable`: Unreadable data
         */
        InternalServerError: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /**
         * @description - `invalid_request`: Invalid request
         *     - `invalid_field`: Invalid field
         *     - `invalid_json`: Invalid JSON
         *     - `invalid_body`: Incomplete body
         */
        MakesTokenBadRequest: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /**
         * @description - `wrong_state`: Not possible in this state
         *     - `too_many_tokens`: Too many tokens
         */
        MakesTokenConflict: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description - `body_too_large`: Body too large */
        MakesTokenPayloadTooLarge: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description - `body_timeout`: Body too slow */
        MakesTokenRequestTimeout: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /**
         * @description - `redis_unavailable`: Redis unavailable
         *     - `redis_refuses_writes`: Redis refuses writes
         *     - `no_rights`: Missing Redis right
         *     - `newer_schema`: Newer schema
         *     - `no_secrets_key`: Key of secrets missing
         *     - `connections_full`: Too many connections
         *     - `memory_high`: Redis memory high
         *     - `not_confirmed`: Not confirmed
         */
        MakesTokenServiceUnavailable: {
            headers: {
                /** @description Seconds until the request may succeed */
                "Retry-After"?: number;
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description - `not_found`: Unknown path */
        MetricsNotFound: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description - `unknown_destination`: Unknown destination */
        ReadsDestinationNotFound: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /**
         * @description - `unknown_destination`: Unknown destination
         *     - `unknown_message`: Unknown message
         */
        ReadsMessageNotFound: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /**
         * @description - `unknown_destination`: Unknown destination
         *     - `unknown_operation`: Unknown operation
         */
        ReadsOperationNotFound: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /**
         * @description - `redis_unavailable`: Redis unavailable
         *     - `redis_refuses_writes`: Redis refuses writes
         *     - `no_rights`: Missing Redis right
         *     - `newer_schema`: Newer schema
         *     - `no_secrets_key`: Key of secrets missing
         *     - `connections_full`: Too many connections
         *     - `not_confirmed`: Not confirmed
         */
        ReadsOperationServiceUnavailable: {
            headers: {
                /** @description Seconds until the request may succeed */
                "Retry-After"?: number;
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description - `unknown_token`: Unknown token */
        ReadsTokenNotFound: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description - `unknown_topic`: Unknown topic */
        ReadsTopicNotFound: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /**
         * @description - `wrong_state`: Not possible in this state
         *     - `defined_in_file`: Defined in the configuration file
         */
        RemovesDestinationConflict: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description - `unknown_destination`: Unknown destination */
        RemovesDestinationNotFound: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /**
         * @description - `redis_unavailable`: Redis unavailable
         *     - `redis_refuses_writes`: Redis refuses writes
         *     - `no_rights`: Missing Redis right
         *     - `newer_schema`: Newer schema
         *     - `no_secrets_key`: Key of secrets missing
         *     - `connections_full`: Too many connections
         *     - `memory_high`: Redis memory high
         *     - `not_confirmed`: Not confirmed
         */
        RemovesDestinationServiceUnavailable: {
            headers: {
                /** @description Seconds until the request may succeed */
                "Retry-After"?: number;
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description - `wrong_state`: Not possible in this state */
        RevokesTokenConflict: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description - `unknown_token`: Unknown token */
        RevokesTokenNotFound: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /**
         * @description - `redis_unavailable`: Redis unavailable
         *     - `redis_refuses_writes`: Redis refuses writes
         *     - `no_rights`: Missing Redis right
         *     - `newer_schema`: Newer schema
         *     - `no_secrets_key`: Key of secrets missing
         *     - `connections_full`: Too many connections
         *     - `memory_high`: Redis memory high
         *     - `not_confirmed`: Not confirmed
         */
        RevokesTokenServiceUnavailable: {
            headers: {
                /** @description Seconds until the request may succeed */
                "Retry-After"?: number;
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /**
         * @description - `invalid_request`: Invalid request
         *     - `invalid_field`: Invalid field
         *     - `invalid_json`: Invalid JSON
         *     - `invalid_body`: Incomplete body
         */
        RollsBackBadRequest: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /**
         * @description - `wrong_state`: Not possible in this state
         *     - `defined_in_file`: Defined in the configuration file
         */
        RollsBackConflict: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description - `unknown_destination`: Unknown destination */
        RollsBackNotFound: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description - `body_too_large`: Body too large */
        RollsBackPayloadTooLarge: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description - `wrong_version`: Changed meanwhile */
        RollsBackPreconditionFailed: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description - `body_timeout`: Body too slow */
        RollsBackRequestTimeout: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /**
         * @description - `redis_unavailable`: Redis unavailable
         *     - `redis_refuses_writes`: Redis refuses writes
         *     - `no_rights`: Missing Redis right
         *     - `newer_schema`: Newer schema
         *     - `no_secrets_key`: Key of secrets missing
         *     - `connections_full`: Too many connections
         *     - `memory_high`: Redis memory high
         *     - `not_confirmed`: Not confirmed
         */
        RollsBackServiceUnavailable: {
            headers: {
                /** @description Seconds until the request may succeed */
                "Retry-After"?: number;
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /**
         * @description - `redis_unavailable`: Redis unavailable
         *     - `redis_refuses_writes`: Redis refuses writes
         *     - `no_rights`: Missing Redis right
         *     - `newer_schema`: Newer schema
         *     - `no_secrets_key`: Key of secrets missing
         *     - `connections_full`: Too many connections
         */
        ServiceUnavailable: {
            headers: {
                /** @description Seconds until the request may succeed */
                "Retry-After"?: number;
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description - `too_many_requests`: Too many requests at once */
        TooManyRequests: {
            headers: {
                /** @description Seconds until the request may succeed */
                "Retry-After"?: number;
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description - `uri_too_long`: URI too long */
        URITooLong: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description - `unauthorized`: No valid token */
        Unauthorized: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /**
         * @description - `invalid_request`: Invalid request
         *     - `invalid_field`: Invalid field
         *     - `invalid_json`: Invalid JSON
         *     - `invalid_body`: Incomplete body
         */
        WorksBadRequest: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description - `wrong_state`: Not possible in this state */
        WorksConflict: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description - `unknown_destination`: Unknown destination */
        WorksNotFound: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description - `body_too_large`: Body too large */
        WorksPayloadTooLarge: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description - `body_timeout`: Body too slow */
        WorksRequestTimeout: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /**
         * @description - `redis_unavailable`: Redis unavailable
         *     - `redis_refuses_writes`: Redis refuses writes
         *     - `no_rights`: Missing Redis right
         *     - `newer_schema`: Newer schema
         *     - `no_secrets_key`: Key of secrets missing
         *     - `connections_full`: Too many connections
         *     - `memory_high`: Redis memory high
         *     - `not_confirmed`: Not confirmed
         *     - `draining`: Process stopping
         */
        WorksServiceUnavailable: {
            headers: {
                /** @description Seconds until the request may succeed */
                "Retry-After"?: number;
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
    };
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type $defs = Record<string, never>;
export interface operations {
    list_messages: {
        parameters: {
            query?: {
                /** @description Only in this state. */
                state?: components["schemas"]["State"];
                /** @description Only with this ordering key; `""`: without one. */
                key?: string;
                /** @description From this sequence on. */
                from_sequence?: number;
                /** @description Up to this sequence. */
                to_sequence?: number;
                /** @description Received since this time (RFC 3339). */
                from_time?: string;
                /** @description Received until this time (RFC 3339). */
                to_time?: string;
                /** @description Only with this text in the detail of one of the errors. */
                error?: string;
                /** @description The approximate size of a page. */
                limit?: number;
                /** @description The `next_cursor` of the page before. */
                cursor?: string;
            };
            header?: never;
            path: {
                /**
                 * @description The name of the destination
                 * @example orders
                 */
                destination: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page of pending messages */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Items_PendingMessage"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["ReadsDestinationNotFound"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    send_message: {
        parameters: {
            query?: never;
            header?: {
                /** @description A repeat with this key stores nothing. With or without quotes. */
                "Idempotency-Key"?: string | null;
                /** @description The ordering key, percent-encoded. */
                "Reseq-Key"?: string | null;
                /** @description An id of your own, percent-encoded. */
                "Reseq-Id"?: string | null;
                /** @description Process the message only after this time, such as `15s`. */
                "Reseq-Delay"?: string | null;
                /** @description Process the message only after this instant (RFC 3339). */
                "Reseq-Due-At"?: string | null;
                /** @description 0 to 9; 9 goes first. */
                "Reseq-Priority"?: number | null;
                /** @description `true`: keep the output for 60 s, for whoever asks for the result. */
                "Reseq-Keep-Result"?: string | null;
                /** @description The most attempts at processing, such as `3`; not more than the destination allows. */
                "Reseq-Attempts-Max"?: string | null;
                /** @description The longest first wait after a failed attempt, such as `15s`. */
                "Reseq-Backoff"?: string | null;
                /** @description Where the message comes from: `name="orders/3", position="0012", after="0011"`. */
                "Reseq-Source"?: string | null;
            };
            path: {
                /**
                 * @description The name of the destination
                 * @example orders
                 */
                destination: string;
            };
            cookie?: never;
        };
        /** @description The message, of any content type */
        requestBody: {
            content: {
                "application/octet-stream": number[];
            };
        };
        responses: {
            /** @description Redis has the message */
            202: {
                headers: {
                    /** @description `true`, if nothing was stored, because all of it had been stored before */
                    "Idempotent-Replayed"?: boolean;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Accepted"];
                };
            };
            400: components["responses"]["IngestsBadRequest"];
            401: components["responses"]["IngestsUnauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["IngestsNotFound"];
            408: components["responses"]["IngestsRequestTimeout"];
            409: components["responses"]["IngestsConflict"];
            413: components["responses"]["IngestsPayloadTooLarge"];
            414: components["responses"]["URITooLong"];
            415: components["responses"]["IngestsUnsupportedMediaType"];
            422: components["responses"]["IngestsUnprocessableEntity"];
            429: components["responses"]["IngestsTooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["IngestsServiceUnavailable"];
        };
    };
    cancel_message_by_idempotency_key: {
        parameters: {
            query: {
                /**
                 * @description The idempotency key of the message.
                 * @example order-7
                 */
                idempotency_key: string;
            };
            header?: never;
            path: {
                /**
                 * @description The name of the destination
                 * @example orders
                 */
                destination: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description It is cancelled */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Withdrawal"];
                };
            };
            /** @description It leaves when its attempt has ended */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Withdrawal"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["ChangesMessageNotFound"];
            409: components["responses"]["ChangesMessageConflict"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ChangesMessageServiceUnavailable"];
        };
    };
    show_message: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The name of the destination
                 * @example orders
                 */
                destination: string;
                /**
                 * @description The sequence of the message
                 * @example 1
                 */
                sequence: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The message, or what became of it */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Message"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["ReadsMessageNotFound"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    cancel_message: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The name of the destination
                 * @example orders
                 */
                destination: string;
                /**
                 * @description The sequence of the message
                 * @example 1
                 */
                sequence: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description It is cancelled */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Withdrawal"];
                };
            };
            /** @description It leaves when its attempt has ended */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Withdrawal"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["ChangesMessageNotFound"];
            409: components["responses"]["ChangesMessageConflict"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ChangesMessageServiceUnavailable"];
        };
    };
    show_message_by_id: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The name of the destination
                 * @example orders
                 */
                destination: string;
                /**
                 * @description The id of the message; of several with the same id, the last
                 * @example 01a20b3e-5f0c-7cc1-9d5f-3b1f8a1f6d10
                 */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The message, or what became of it */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Message"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["ReadsMessageNotFound"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    find_messages_by_id: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The id of the message
                 * @example 01a20b3e-5f0c-7cc1-9d5f-3b1f8a1f6d10
                 */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The last message with this id of each destination that has one */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MessagesFound"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    await_result: {
        parameters: {
            query: {
                /**
                 * @description The id of the message.
                 * @example 01a20b3e-5f0c-7cc1-9d5f-3b1f8a1f6d10
                 */
                id: string;
                /** @description Wait up to this long if the message is not processed yet. */
                wait_ms?: number;
            };
            header?: never;
            path: {
                /**
                 * @description The name of the destination
                 * @example orders
                 */
                destination: string;
                /**
                 * @description The sequence of the message
                 * @example 1
                 */
                sequence: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The result, or that there is none yet */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MessageResult"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["AwaitsResultNotFound"];
            409: components["responses"]["AwaitsResultConflict"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    run_message_now: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The name of the destination
                 * @example orders
                 */
                destination: string;
                /**
                 * @description The sequence of the message
                 * @example 1
                 */
                sequence: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description It is due now */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["HeadState"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["ChangesMessageNotFound"];
            409: components["responses"]["ChangesMessageConflict"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ChangesMessageServiceUnavailable"];
        };
    };
    run_now: {
        parameters: {
            query?: never;
            header?: {
                /** @description `respond-async`, or `wait=<seconds>` for the end (RFC 7240); 10 s if absent */
                Prefer?: string | null;
            };
            path: {
                /**
                 * @description The name of the destination
                 * @example orders
                 */
                destination: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": null | components["schemas"]["RunNowRequest"];
            };
        };
        responses: {
            /** @description It is done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Operation"];
                };
            };
            /** @description It goes on */
            202: {
                headers: {
                    /** @description Where the operation can be read */
                    Location?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Operation"];
                };
            };
            400: components["responses"]["ChangesBadRequest"];
            401: components["responses"]["ChangesUnauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["ChangesNotFound"];
            408: components["responses"]["ChangesRequestTimeout"];
            409: components["responses"]["ChangesConflict"];
            413: components["responses"]["ChangesPayloadTooLarge"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["ChangesTooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ChangesServiceUnavailable"];
        };
    };
    list_destinations: {
        parameters: {
            query?: {
                /** @description The size of a page. */
                limit?: number;
                /** @description The `next_cursor` of the page before. */
                cursor?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page, by name */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Items_Destination"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    show_destination: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The name of the destination
                 * @example orders
                 */
                destination: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The definition */
            200: {
                headers: {
                    /** @description For `If-Match` */
                    ETag?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Destination"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["ReadsDestinationNotFound"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    define_destination: {
        parameters: {
            query?: never;
            header?: {
                /** @description Change only this version: an ETag, or `*` */
                "If-Match"?: string | null;
                /** @description `*`: create, but never change */
                "If-None-Match"?: string | null;
            };
            path: {
                /**
                 * @description The name of the destination
                 * @example orders
                 */
                destination: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "delivery": {
                 *         "timeout_ms": 5000
                 *       },
                 *       "transform": {
                 *         "kind": "worker"
                 *       },
                 *       "url": "http://127.0.0.1:9001/in"
                 *     }
                 */
                "application/json": components["schemas"]["DestinationDefinition"];
            };
        };
        responses: {
            /** @description It is changed, or was the same */
            200: {
                headers: {
                    /** @description For `If-Match` */
                    ETag?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Destination"];
                };
            };
            /** @description It is created */
            201: {
                headers: {
                    /** @description For `If-Match` */
                    ETag?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Destination"];
                };
            };
            400: components["responses"]["DefinesDestinationBadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["DefinesDestinationNotFound"];
            408: components["responses"]["DefinesDestinationRequestTimeout"];
            409: components["responses"]["DefinesDestinationConflict"];
            412: components["responses"]["DefinesDestinationPreconditionFailed"];
            413: components["responses"]["DefinesDestinationPayloadTooLarge"];
            414: components["responses"]["URITooLong"];
            422: components["responses"]["DefinesDestinationUnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["DefinesDestinationServiceUnavailable"];
        };
    };
    remove_destination: {
        parameters: {
            query?: {
                /** @description True: with its pending messages and dead letters. */
                force?: boolean;
            };
            header?: never;
            path: {
                /**
                 * @description The name of the destination
                 * @example orders
                 */
                destination: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description It is removed */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Removed"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["RemovesDestinationNotFound"];
            409: components["responses"]["RemovesDestinationConflict"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["RemovesDestinationServiceUnavailable"];
        };
    };
    change_destination: {
        parameters: {
            query?: never;
            header?: {
                /** @description Change only this version: an ETag, or `*` */
                "If-Match"?: string | null;
            };
            path: {
                /**
                 * @description The name of the destination
                 * @example orders
                 */
                destination: string;
            };
            cookie?: never;
        };
        /** @description A merge patch (RFC 7396): what is absent stays, null stands for the default */
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "delivery": {
                 *         "timeout_ms": 3000
                 *       }
                 *     }
                 */
                "application/merge-patch+json": components["schemas"]["DestinationPatch"];
            };
        };
        responses: {
            /** @description It is changed */
            200: {
                headers: {
                    /** @description For `If-Match` */
                    ETag?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Destination"];
                };
            };
            400: components["responses"]["DefinesDestinationBadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["DefinesDestinationNotFound"];
            408: components["responses"]["DefinesDestinationRequestTimeout"];
            409: components["responses"]["DefinesDestinationConflict"];
            412: components["responses"]["DefinesDestinationPreconditionFailed"];
            413: components["responses"]["DefinesDestinationPayloadTooLarge"];
            414: components["responses"]["URITooLong"];
            422: components["responses"]["DefinesDestinationUnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["DefinesDestinationServiceUnavailable"];
        };
    };
    list_sources: {
        parameters: {
            query?: {
                /**
                 * @description Only the source with this name.
                 * @example orders/3
                 */
                name?: string;
            };
            header?: never;
            path: {
                /**
                 * @description The name of the destination
                 * @example orders
                 */
                destination: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The mark of each source */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Sources"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["ReadsDestinationNotFound"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    remove_source: {
        parameters: {
            query: {
                /**
                 * @description The name of the source.
                 * @example orders/3
                 */
                name: string;
            };
            header?: never;
            path: {
                /**
                 * @description The name of the destination
                 * @example orders
                 */
                destination: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description It has no mark any more */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RemovedSource"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["ChangesMessageNotFound"];
            409: components["responses"]["ChangesMessageConflict"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ChangesMessageServiceUnavailable"];
        };
    };
    list_removed_destinations: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The last ones of 7 days, by name */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Items_RemovedDefinition"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    restore_destination: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The name of the removed destination
                 * @example orders
                 */
                destination: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description It exists, with this definition */
            200: {
                headers: {
                    /** @description For `If-Match` */
                    ETag?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Destination"];
                };
            };
            /** @description It is created, without messages */
            201: {
                headers: {
                    /** @description For `If-Match` */
                    ETag?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Destination"];
                };
            };
            400: components["responses"]["RollsBackBadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["RollsBackNotFound"];
            408: components["responses"]["RollsBackRequestTimeout"];
            409: components["responses"]["RollsBackConflict"];
            412: components["responses"]["RollsBackPreconditionFailed"];
            413: components["responses"]["RollsBackPayloadTooLarge"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["RollsBackServiceUnavailable"];
        };
    };
    list_versions: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The name of the destination
                 * @example orders
                 */
                destination: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The last versions, the newest first */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Items_DestinationVersion"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["ReadsDestinationNotFound"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    diff_destination: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The name of the destination
                 * @example orders
                 */
                destination: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "delivery": {
                 *         "timeout_ms": 5000
                 *       },
                 *       "transform": {
                 *         "kind": "worker"
                 *       },
                 *       "url": "http://127.0.0.1:9001/in"
                 *     }
                 */
                "application/json": components["schemas"]["DestinationDefinition"];
            };
        };
        responses: {
            /** @description What PUT would change; nothing has changed */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DefinitionDiff"];
                };
            };
            400: components["responses"]["DefinesDestinationBadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["DefinesDestinationNotFound"];
            408: components["responses"]["DefinesDestinationRequestTimeout"];
            409: components["responses"]["DefinesDestinationConflict"];
            412: components["responses"]["DefinesDestinationPreconditionFailed"];
            413: components["responses"]["DefinesDestinationPayloadTooLarge"];
            414: components["responses"]["URITooLong"];
            422: components["responses"]["DefinesDestinationUnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["DefinesDestinationServiceUnavailable"];
        };
    };
    roll_back_destination: {
        parameters: {
            query?: never;
            header?: {
                /** @description Change only this version: an ETag, or `*` */
                "If-Match"?: string | null;
            };
            path: {
                /**
                 * @description The name of the destination
                 * @example orders
                 */
                destination: string;
            };
            cookie?: never;
        };
        /** @description The version to take */
        requestBody?: {
            content: {
                /**
                 * @example {
                 *       "to": 1
                 *     }
                 */
                "application/json": null | components["schemas"]["Rollback"];
            };
        };
        responses: {
            /** @description It is defined as in that version, or was the same */
            200: {
                headers: {
                    /** @description For `If-Match` */
                    ETag?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Destination"];
                };
            };
            400: components["responses"]["RollsBackBadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["RollsBackNotFound"];
            408: components["responses"]["RollsBackRequestTimeout"];
            409: components["responses"]["RollsBackConflict"];
            412: components["responses"]["RollsBackPreconditionFailed"];
            413: components["responses"]["RollsBackPayloadTooLarge"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["RollsBackServiceUnavailable"];
        };
    };
    list_stats: {
        parameters: {
            query?: {
                /** @description The size of a page. */
                limit?: number;
                /** @description The `next_cursor` of the page before; only with `sort=name`. */
                cursor?: string;
                /** @description Which destinations come first. Other orders than `name` have one page. */
                sort?: "name" | "pending" | "stuck";
                /** @description True: with the oldest heads of each destination that is listed. */
                heads?: boolean;
                /** @description True: only the destinations that need attention. */
                attention?: boolean;
                /** @description False: without the sums over all destinations, which cost a look at each of them. `true` if absent. */
                totals?: boolean;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page, and totals */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AllStats"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    show_stats: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The name of the destination
                 * @example orders
                 */
                destination: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Its numbers, and its oldest heads */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Stats"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["ReadsDestinationNotFound"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    why: {
        parameters: {
            query?: {
                /**
                 * @description The lane of this ordering key; `""`: of the messages without a key. Without it: the lane whose
                 *     head is the oldest.
                 */
                key?: string;
            };
            header?: never;
            path: {
                /**
                 * @description The name of the destination
                 * @example orders
                 */
                destination: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description What blocks the lane, and what to do */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Why"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["ReadsDestinationNotFound"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    list_lanes: {
        parameters: {
            query?: {
                /** @description How many lanes. */
                limit?: number;
                /** @description The `next_cursor` of the part before. */
                cursor?: string;
            };
            header?: never;
            path: {
                /**
                 * @description The name of the destination
                 * @example orders
                 */
                destination: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The largest lanes of a part of the keys */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Lanes"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["ReadsDestinationNotFound"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    list_pods: {
        parameters: {
            query?: {
                /** @description The size of a page. */
                limit?: number;
                /** @description The `next_cursor` of the page before. */
                cursor?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page, by name */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Items_Pod"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    doctor: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description What was checked and found */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Report"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    list_tokens: {
        parameters: {
            query?: {
                /** @description The size of a page. */
                limit?: number;
                /** @description The `next_cursor` of the page before. */
                cursor?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page, by id */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Items_Token"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    make_token: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "destinations": [
                 *         "orders"
                 *       ],
                 *       "name": "orders-service",
                 *       "scopes": [
                 *         "ingest"
                 *       ]
                 *     }
                 */
                "application/json": components["schemas"]["TokenRequest"];
            };
        };
        responses: {
            /** @description The token, shown this once */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["NewToken"];
                };
            };
            400: components["responses"]["MakesTokenBadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            408: components["responses"]["MakesTokenRequestTimeout"];
            409: components["responses"]["MakesTokenConflict"];
            413: components["responses"]["MakesTokenPayloadTooLarge"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["MakesTokenServiceUnavailable"];
        };
    };
    show_token: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The id of the token
                 * @example 01a20b3e-5f0c-7cc1-9d5f-3b1f8a1f6d10
                 */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The token, without its secret */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Token"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["ReadsTokenNotFound"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    revoke_token: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The id of the token
                 * @example 01a20b3e-5f0c-7cc1-9d5f-3b1f8a1f6d10
                 */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description It is valid no longer: within a second at all pods */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RevokedToken"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["RevokesTokenNotFound"];
            409: components["responses"]["RevokesTokenConflict"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["RevokesTokenServiceUnavailable"];
        };
    };
    list_audit: {
        parameters: {
            query?: {
                /** @description Only what this caller did: the id or the name of its token, or another value of `actor`. */
                actor?: string;
                /** @description Only this action, for example `purge`. */
                action?: string;
                /** @description Only what was done to this destination. */
                destination?: components["schemas"]["DestinationName"];
                /** @description Done since this time (RFC 3339). */
                from_time?: string;
                /** @description Done until this time (RFC 3339). */
                to_time?: string;
                /** @description The size of a page. */
                limit?: number;
                /** @description The `next_cursor` of the page before. */
                cursor?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page, the newest first */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Items_AuditEntry"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    list_topics: {
        parameters: {
            query?: {
                /** @description The size of a page. */
                limit?: number;
                /** @description The `next_cursor` of the page before. */
                cursor?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page, by name */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Items_Topic"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    show_topic: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The name of the topic
                 * @example all-orders
                 */
                topic: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The topic */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Topic"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["ReadsTopicNotFound"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    define_topic: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The name of the topic
                 * @example all-orders
                 */
                topic: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "destinations": [
                 *         "orders"
                 *       ]
                 *     }
                 */
                "application/json": components["schemas"]["TopicDefinition"];
            };
        };
        responses: {
            /** @description It is changed, or was the same */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Topic"];
                };
            };
            /** @description It is created */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Topic"];
                };
            };
            400: components["responses"]["DefinesTopicBadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["DefinesTopicNotFound"];
            408: components["responses"]["DefinesTopicRequestTimeout"];
            409: components["responses"]["DefinesTopicConflict"];
            413: components["responses"]["DefinesTopicPayloadTooLarge"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["DefinesTopicServiceUnavailable"];
        };
    };
    remove_topic: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The name of the topic
                 * @example all-orders
                 */
                topic: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description It is removed */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RemovedTopic"];
                };
            };
            400: components["responses"]["DefinesTopicBadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["DefinesTopicNotFound"];
            408: components["responses"]["DefinesTopicRequestTimeout"];
            409: components["responses"]["DefinesTopicConflict"];
            413: components["responses"]["DefinesTopicPayloadTooLarge"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["DefinesTopicServiceUnavailable"];
        };
    };
    pause: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The name of the destination
                 * @example orders
                 */
                destination: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                /**
                 * @example {
                 *       "what": "delivery"
                 *     }
                 */
                "application/json": null | components["schemas"]["Pause"];
            };
        };
        responses: {
            /** @description What is paused now */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PauseState"];
                };
            };
            400: components["responses"]["ChangesBadRequest"];
            401: components["responses"]["ChangesUnauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["ChangesNotFound"];
            408: components["responses"]["ChangesRequestTimeout"];
            409: components["responses"]["ChangesConflict"];
            413: components["responses"]["ChangesPayloadTooLarge"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["ChangesTooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ChangesServiceUnavailable"];
        };
    };
    resume: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The name of the destination
                 * @example orders
                 */
                destination: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                /** @example {} */
                "application/json": null | components["schemas"]["Pause"];
            };
        };
        responses: {
            /** @description What is paused now */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PauseState"];
                };
            };
            400: components["responses"]["ChangesBadRequest"];
            401: components["responses"]["ChangesUnauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["ChangesNotFound"];
            408: components["responses"]["ChangesRequestTimeout"];
            409: components["responses"]["ChangesConflict"];
            413: components["responses"]["ChangesPayloadTooLarge"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["ChangesTooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ChangesServiceUnavailable"];
        };
    };
    retry_head: {
        parameters: {
            query?: never;
            header?: {
                /** @description `respond-async`, or `wait=<seconds>` for the end (RFC 7240); 10 s if absent */
                Prefer?: string | null;
            };
            path: {
                /**
                 * @description The name of the destination
                 * @example orders
                 */
                destination: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                /**
                 * @example {
                 *       "all": true
                 *     }
                 */
                "application/json": null | components["schemas"]["RetryHead"];
            };
        };
        responses: {
            /** @description Its state now; with `all`: it is done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Retried"];
                };
            };
            /** @description With `all`: it goes on */
            202: {
                headers: {
                    /** @description Where the operation can be read */
                    Location?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Operation"];
                };
            };
            400: components["responses"]["ChangesBadRequest"];
            401: components["responses"]["ChangesUnauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["ChangesNotFound"];
            408: components["responses"]["ChangesRequestTimeout"];
            409: components["responses"]["ChangesConflict"];
            413: components["responses"]["ChangesPayloadTooLarge"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["ChangesTooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ChangesServiceUnavailable"];
        };
    };
    skip_head: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The name of the destination
                 * @example orders
                 */
                destination: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "sequence": 1
                 *     }
                 */
                "application/json": components["schemas"]["SkipHead"];
            };
        };
        responses: {
            /** @description It is a dead letter */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Withdrawal"];
                };
            };
            /** @description It leaves when its attempt has ended */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Withdrawal"];
                };
            };
            400: components["responses"]["ChangesBadRequest"];
            401: components["responses"]["ChangesUnauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["ChangesNotFound"];
            408: components["responses"]["ChangesRequestTimeout"];
            409: components["responses"]["ChangesConflict"];
            413: components["responses"]["ChangesPayloadTooLarge"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["ChangesTooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ChangesServiceUnavailable"];
        };
    };
    purge: {
        parameters: {
            query?: never;
            header?: {
                /** @description `respond-async`, or `wait=<seconds>` for the end (RFC 7240); 10 s if absent */
                Prefer?: string | null;
            };
            path: {
                /**
                 * @description The name of the destination
                 * @example orders
                 */
                destination: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                /**
                 * @example {
                 *       "dry_run": true
                 *     }
                 */
                "application/json": null | components["schemas"]["PurgeRequest"];
            };
        };
        responses: {
            /** @description It is done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Operation"];
                };
            };
            /** @description It goes on */
            202: {
                headers: {
                    /** @description Where the operation can be read */
                    Location?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Operation"];
                };
            };
            400: components["responses"]["ChangesBadRequest"];
            401: components["responses"]["ChangesUnauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["ChangesNotFound"];
            408: components["responses"]["ChangesRequestTimeout"];
            409: components["responses"]["ChangesConflict"];
            413: components["responses"]["ChangesPayloadTooLarge"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["ChangesTooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ChangesServiceUnavailable"];
        };
    };
    repair: {
        parameters: {
            query?: never;
            header?: {
                /** @description `respond-async`, or `wait=<seconds>` for the end (RFC 7240); 10 s if absent */
                Prefer?: string | null;
            };
            path: {
                /**
                 * @description The name of the destination
                 * @example orders
                 */
                destination: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                /**
                 * @example {
                 *       "dry_run": true
                 *     }
                 */
                "application/json": null | components["schemas"]["RepairRequest"];
            };
        };
        responses: {
            /** @description It is done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Operation"];
                };
            };
            /** @description It goes on */
            202: {
                headers: {
                    /** @description Where the operation can be read */
                    Location?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Operation"];
                };
            };
            400: components["responses"]["ChangesBadRequest"];
            401: components["responses"]["ChangesUnauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["ChangesNotFound"];
            408: components["responses"]["ChangesRequestTimeout"];
            409: components["responses"]["ChangesConflict"];
            413: components["responses"]["ChangesPayloadTooLarge"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["ChangesTooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ChangesServiceUnavailable"];
        };
    };
    list_dead_letters: {
        parameters: {
            query?: {
                /** @description Only with this ordering key; `""`: without one. */
                key?: string;
                /** @description Only those that were given up in this stage. */
                stage?: components["schemas"]["Stage"];
                /** @description From this sequence on. */
                from_sequence?: number;
                /** @description Up to this sequence. */
                to_sequence?: number;
                /** @description Dead letters since this time (RFC 3339). */
                from_time?: string;
                /** @description Dead letters until this time (RFC 3339). */
                to_time?: string;
                /** @description Only with this text in the reason, or in the detail of one of the errors. */
                error?: string;
                /** @description The size of a page. */
                limit?: number;
                /** @description The `next_cursor` of the page before. */
                cursor?: string;
            };
            header?: never;
            path: {
                /**
                 * @description The name of the destination
                 * @example orders
                 */
                destination: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page, by sequence */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Items_DeadLetter"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["ReadsDestinationNotFound"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    show_dead_letter: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The name of the destination
                 * @example orders
                 */
                destination: string;
                /**
                 * @description The sequence of the dead letter
                 * @example 1
                 */
                sequence: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The dead letter, with its body */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DeadLetter"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["ReadsMessageNotFound"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    discard_dead_letter: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The name of the destination
                 * @example orders
                 */
                destination: string;
                /**
                 * @description The sequence of the dead letter
                 * @example 1
                 */
                sequence: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description It is discarded */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Discarded"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["ChangesMessageNotFound"];
            409: components["responses"]["ChangesMessageConflict"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ChangesMessageServiceUnavailable"];
        };
    };
    redrive: {
        parameters: {
            query?: never;
            header?: {
                /** @description `respond-async`, or `wait=<seconds>` for the end (RFC 7240); 10 s if absent */
                Prefer?: string | null;
            };
            path: {
                /**
                 * @description The name of the destination
                 * @example orders
                 */
                destination: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "all": true,
                 *       "dry_run": true
                 *     }
                 */
                "application/json": components["schemas"]["Selection"];
            };
        };
        responses: {
            /** @description It is done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Operation"];
                };
            };
            /** @description It goes on */
            202: {
                headers: {
                    /** @description Where the operation can be read */
                    Location?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Operation"];
                };
            };
            400: components["responses"]["ChangesBadRequest"];
            401: components["responses"]["ChangesUnauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["ChangesNotFound"];
            408: components["responses"]["ChangesRequestTimeout"];
            409: components["responses"]["ChangesConflict"];
            413: components["responses"]["ChangesPayloadTooLarge"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["ChangesTooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ChangesServiceUnavailable"];
        };
    };
    discard: {
        parameters: {
            query?: never;
            header?: {
                /** @description `respond-async`, or `wait=<seconds>` for the end (RFC 7240); 10 s if absent */
                Prefer?: string | null;
            };
            path: {
                /**
                 * @description The name of the destination
                 * @example orders
                 */
                destination: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "all": true,
                 *       "dry_run": true
                 *     }
                 */
                "application/json": components["schemas"]["Selection"];
            };
        };
        responses: {
            /** @description It is done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Operation"];
                };
            };
            /** @description It goes on */
            202: {
                headers: {
                    /** @description Where the operation can be read */
                    Location?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Operation"];
                };
            };
            400: components["responses"]["ChangesBadRequest"];
            401: components["responses"]["ChangesUnauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["ChangesNotFound"];
            408: components["responses"]["ChangesRequestTimeout"];
            409: components["responses"]["ChangesConflict"];
            413: components["responses"]["ChangesPayloadTooLarge"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["ChangesTooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ChangesServiceUnavailable"];
        };
    };
    list_log: {
        parameters: {
            query?: {
                /** @description Only with this ordering key; `""`: without one. */
                key?: string;
                /** @description Only those that left in this state. */
                state?: components["schemas"]["State"];
                /** @description From this sequence on. */
                from_sequence?: number;
                /** @description Up to this sequence. */
                to_sequence?: number;
                /** @description Gone since this time (RFC 3339). */
                from_time?: string;
                /** @description Gone until this time (RFC 3339). */
                to_time?: string;
                /** @description The size of a page. */
                limit?: number;
                /** @description The `next_cursor` of the page before. */
                cursor?: string;
            };
            header?: never;
            path: {
                /**
                 * @description The name of the destination
                 * @example orders
                 */
                destination: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The newest first */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Items_LogEntry"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["ReadsDestinationNotFound"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    tail_deliveries: {
        parameters: {
            query?: {
                /** @description Only of this destination. */
                destination?: string;
                /** @description Only with this ordering key; `""`: without one. */
                key?: string;
                /** @description Only those that ended in this way. */
                outcome?: "accepted" | "refused";
                /** @description The answer ends after this time, in milliseconds. */
                duration_ms?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A line of JSON for each delivery, until the time is up */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/x-ndjson": string;
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["ReadsDestinationNotFound"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    replay: {
        parameters: {
            query?: never;
            header?: {
                /** @description `respond-async`, or `wait=<seconds>` for the end (RFC 7240); 10 s if absent */
                Prefer?: string | null;
                /** @description The same as the field */
                "Idempotency-Key"?: string | null;
            };
            path: {
                /**
                 * @description The name of the destination
                 * @example orders
                 */
                destination: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "dry_run": true,
                 *       "from_sequence": 1
                 *     }
                 */
                "application/json": components["schemas"]["ReplayRequest"];
            };
        };
        responses: {
            /** @description It is done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Operation"];
                };
            };
            /** @description It goes on */
            202: {
                headers: {
                    /** @description Where the operation can be read */
                    Location?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Operation"];
                };
            };
            400: components["responses"]["ChangesBadRequest"];
            401: components["responses"]["ChangesUnauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["ChangesNotFound"];
            408: components["responses"]["ChangesRequestTimeout"];
            409: components["responses"]["ChangesConflict"];
            413: components["responses"]["ChangesPayloadTooLarge"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["ChangesTooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ChangesServiceUnavailable"];
        };
    };
    list_operations: {
        parameters: {
            query?: {
                /** @description The size of a page. */
                limit?: number;
                /** @description The `next_cursor` of the page before. */
                cursor?: string;
            };
            header?: never;
            path: {
                /**
                 * @description The name of the destination
                 * @example orders
                 */
                destination: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The newest first */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Items_Operation"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["ReadsDestinationNotFound"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    show_operation: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The name of the destination
                 * @example orders
                 */
                destination: string;
                /**
                 * @description The id of the operation
                 * @example 01a20b3e-5f0c-7cc1-9d5f-3b1f8a1f6d10
                 */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The operation */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Operation"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["ReadsOperationNotFound"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ReadsOperationServiceUnavailable"];
        };
    };
    cancel_operation: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The name of the destination
                 * @example orders
                 */
                destination: string;
                /**
                 * @description The id of the operation
                 * @example 01a20b3e-5f0c-7cc1-9d5f-3b1f8a1f6d10
                 */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description It stops within a second, if it still runs */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Operation"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["ReadsOperationNotFound"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ReadsOperationServiceUnavailable"];
        };
    };
    claim: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "destinations": [
                 *         "orders"
                 *       ],
                 *       "lease_ms": 30000,
                 *       "max": 16
                 *     }
                 */
                "application/json": components["schemas"]["LeaseRequest"];
            };
        };
        responses: {
            /** @description Messages, or none */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Leases"];
                };
            };
            400: components["responses"]["WorksBadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["WorksNotFound"];
            408: components["responses"]["WorksRequestTimeout"];
            409: components["responses"]["WorksConflict"];
            413: components["responses"]["WorksPayloadTooLarge"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["WorksServiceUnavailable"];
        };
    };
    complete_leases: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "items": [
                 *         {
                 *           "body": {
                 *             "order": 7
                 *           },
                 *           "token": "the token of a lease"
                 *         }
                 *       ]
                 *     }
                 */
                "application/json": components["schemas"]["LeaseItems_CompleteItem"];
            };
        };
        responses: {
            /** @description One result for each item */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LeaseResults"];
                };
            };
            400: components["responses"]["WorksBadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["WorksNotFound"];
            408: components["responses"]["WorksRequestTimeout"];
            409: components["responses"]["WorksConflict"];
            413: components["responses"]["WorksPayloadTooLarge"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["WorksServiceUnavailable"];
        };
    };
    fail_leases: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "items": [
                 *         {
                 *           "error": "no such account",
                 *           "token": "the token of a lease"
                 *         }
                 *       ]
                 *     }
                 */
                "application/json": components["schemas"]["LeaseItems_FailItem"];
            };
        };
        responses: {
            /** @description One result for each item */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LeaseResults"];
                };
            };
            400: components["responses"]["WorksBadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["WorksNotFound"];
            408: components["responses"]["WorksRequestTimeout"];
            409: components["responses"]["WorksConflict"];
            413: components["responses"]["WorksPayloadTooLarge"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["WorksServiceUnavailable"];
        };
    };
    extend_leases: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "items": [
                 *         {
                 *           "lease_ms": 30000,
                 *           "token": "the token of a lease"
                 *         }
                 *       ]
                 *     }
                 */
                "application/json": components["schemas"]["LeaseItems_ExtendItem"];
            };
        };
        responses: {
            /** @description One result for each item */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LeaseResults"];
                };
            };
            400: components["responses"]["WorksBadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["WorksNotFound"];
            408: components["responses"]["WorksRequestTimeout"];
            409: components["responses"]["WorksConflict"];
            413: components["responses"]["WorksPayloadTooLarge"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["WorksServiceUnavailable"];
        };
    };
    requeue_leases: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "items": [
                 *         {
                 *           "token": "the token of a lease"
                 *         }
                 *       ]
                 *     }
                 */
                "application/json": components["schemas"]["LeaseItems_RequeueItem"];
            };
        };
        responses: {
            /** @description One result for each item */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LeaseResults"];
                };
            };
            400: components["responses"]["WorksBadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["WorksNotFound"];
            408: components["responses"]["WorksRequestTimeout"];
            409: components["responses"]["WorksConflict"];
            413: components["responses"]["WorksPayloadTooLarge"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["WorksServiceUnavailable"];
        };
    };
    consume: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The name of the destination
                 * @example orders
                 */
                destination: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "consumer": "host-7:1234",
                 *       "max": 16
                 *     }
                 */
                "application/json": components["schemas"]["ConsumeRequest"];
            };
        };
        responses: {
            /** @description Messages, or none */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ConsumedMessages"];
                };
            };
            400: components["responses"]["WorksBadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["WorksNotFound"];
            408: components["responses"]["WorksRequestTimeout"];
            409: components["responses"]["WorksConflict"];
            413: components["responses"]["WorksPayloadTooLarge"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["WorksServiceUnavailable"];
        };
    };
    accept_deliveries: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "items": [
                 *         {
                 *           "token": "the token of a lease"
                 *         }
                 *       ]
                 *     }
                 */
                "application/json": components["schemas"]["LeaseItems_HeldItem"];
            };
        };
        responses: {
            /** @description One result for each item */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LeaseResults"];
                };
            };
            400: components["responses"]["WorksBadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["WorksNotFound"];
            408: components["responses"]["WorksRequestTimeout"];
            409: components["responses"]["WorksConflict"];
            413: components["responses"]["WorksPayloadTooLarge"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["WorksServiceUnavailable"];
        };
    };
    refuse_deliveries: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "items": [
                 *         {
                 *           "error": "no paper",
                 *           "token": "the token of a lease"
                 *         }
                 *       ]
                 *     }
                 */
                "application/json": components["schemas"]["LeaseItems_RefuseItem"];
            };
        };
        responses: {
            /** @description One result for each item */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LeaseResults"];
                };
            };
            400: components["responses"]["WorksBadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["WorksNotFound"];
            408: components["responses"]["WorksRequestTimeout"];
            409: components["responses"]["WorksConflict"];
            413: components["responses"]["WorksPayloadTooLarge"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["WorksServiceUnavailable"];
        };
    };
    extend_deliveries: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "items": [
                 *         {
                 *           "token": "the token of a lease"
                 *         }
                 *       ]
                 *     }
                 */
                "application/json": components["schemas"]["LeaseItems_HeldItem"];
            };
        };
        responses: {
            /** @description One result for each item */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LeaseResults"];
                };
            };
            400: components["responses"]["WorksBadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["WorksNotFound"];
            408: components["responses"]["WorksRequestTimeout"];
            409: components["responses"]["WorksConflict"];
            413: components["responses"]["WorksPayloadTooLarge"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["WorksServiceUnavailable"];
        };
    };
    requeue_deliveries: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "items": [
                 *         {
                 *           "token": "the token of a lease"
                 *         }
                 *       ]
                 *     }
                 */
                "application/json": components["schemas"]["LeaseItems_HeldItem"];
            };
        };
        responses: {
            /** @description One result for each item */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LeaseResults"];
                };
            };
            400: components["responses"]["WorksBadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["WorksNotFound"];
            408: components["responses"]["WorksRequestTimeout"];
            409: components["responses"]["WorksConflict"];
            413: components["responses"]["WorksPayloadTooLarge"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["WorksServiceUnavailable"];
        };
    };
    healthz: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The process is alive */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/plain": string;
                };
            };
        };
    };
    readyz: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description `ready`, and a line for each warning */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/plain": string;
                };
            };
            /** @description The code of the reason, and a sentence: `redis_refuses_writes: …` */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/plain": string;
                };
            };
        };
    };
    metrics: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The text format of Prometheus */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/plain": string;
                };
            };
            404: components["responses"]["MetricsNotFound"];
        };
    };
    list_problems: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description All codes of errors, as a page */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/html": string;
                };
            };
        };
    };
    show_problem: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The code of a problem
                 * @example invalid_field
                 */
                code: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description What the code means, and what to do */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/html": string;
                };
            };
            404: components["responses"]["MetricsNotFound"];
        };
    };
    openapi: {
        parameters: {
            query?: {
                /** @description The version of OpenAPI: `3.1`, or `3.0` for generators that do not know 3.1. */
                version?: "3.1" | "3.0";
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description This document */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": unknown;
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    docs: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description This document, for people */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/html": string;
                };
            };
        };
    };
    docs_script: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The script of the page */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/javascript": string;
                };
            };
        };
    };
    docs_style: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The style of the page */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/css": string;
                };
            };
        };
    };
    docs_start: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Starts the page */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/javascript": string;
                };
            };
        };
    };
    publish_message: {
        parameters: {
            query?: never;
            header?: {
                /** @description A repeat with this key stores nothing. With or without quotes. */
                "Idempotency-Key"?: string | null;
                /** @description The ordering key, percent-encoded. */
                "Reseq-Key"?: string | null;
                /** @description An id of your own, percent-encoded. */
                "Reseq-Id"?: string | null;
                /** @description Process the message only after this time, such as `15s`. */
                "Reseq-Delay"?: string | null;
                /** @description Process the message only after this instant (RFC 3339). */
                "Reseq-Due-At"?: string | null;
                /** @description 0 to 9; 9 goes first. */
                "Reseq-Priority"?: number | null;
                /** @description `true`: keep the output for 60 s, for whoever asks for the result. */
                "Reseq-Keep-Result"?: string | null;
                /** @description The most attempts at processing, such as `3`; not more than the destination allows. */
                "Reseq-Attempts-Max"?: string | null;
                /** @description The longest first wait after a failed attempt, such as `15s`. */
                "Reseq-Backoff"?: string | null;
                /** @description Where the message comes from: `name="orders/3", position="0012", after="0011"`. */
                "Reseq-Source"?: string | null;
            };
            path: {
                /**
                 * @description The name of the topic
                 * @example all-orders
                 */
                topic: string;
            };
            cookie?: never;
        };
        /** @description The message, of any content type */
        requestBody: {
            content: {
                "application/octet-stream": number[];
            };
        };
        responses: {
            /** @description Redis has all copies */
            202: {
                headers: {
                    /** @description `true`, if nothing was stored, because all of it had been stored before */
                    "Idempotent-Replayed"?: boolean;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Accepted"];
                };
            };
            400: components["responses"]["IngestsBadRequest"];
            401: components["responses"]["IngestsUnauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["IngestsNotFound"];
            408: components["responses"]["IngestsRequestTimeout"];
            409: components["responses"]["IngestsConflict"];
            413: components["responses"]["IngestsPayloadTooLarge"];
            414: components["responses"]["URITooLong"];
            415: components["responses"]["IngestsUnsupportedMediaType"];
            422: components["responses"]["IngestsUnprocessableEntity"];
            429: components["responses"]["IngestsTooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["IngestsServiceUnavailable"];
        };
    };
    send_messages: {
        parameters: {
            query?: never;
            header?: {
                /** @description A repeat with this key stores nothing. With or without quotes. */
                "Idempotency-Key"?: string | null;
                /** @description The ordering key, percent-encoded. */
                "Reseq-Key"?: string | null;
                /** @description An id of your own, percent-encoded. */
                "Reseq-Id"?: string | null;
                /** @description Process the message only after this time, such as `15s`. */
                "Reseq-Delay"?: string | null;
                /** @description Process the message only after this instant (RFC 3339). */
                "Reseq-Due-At"?: string | null;
                /** @description 0 to 9; 9 goes first. */
                "Reseq-Priority"?: number | null;
                /** @description `true`: keep the output for 60 s, for whoever asks for the result. */
                "Reseq-Keep-Result"?: string | null;
                /** @description The most attempts at processing, such as `3`; not more than the destination allows. */
                "Reseq-Attempts-Max"?: string | null;
                /** @description The longest first wait after a failed attempt, such as `15s`. */
                "Reseq-Backoff"?: string | null;
                /** @description Where the message comes from: `name="orders/3", position="0012", after="0011"`. */
                "Reseq-Source"?: string | null;
            };
            path?: never;
            cookie?: never;
        };
        /** @description One message, or a batch with one on each line */
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "body": {
                 *         "order": 7
                 *       },
                 *       "destinations": [
                 *         "orders"
                 *       ],
                 *       "headers": {
                 *         "x-tenant": "7"
                 *       },
                 *       "idempotency_key": "order-7",
                 *       "key": "acct-7"
                 *     }
                 */
                "application/json": components["schemas"]["NewMessage"];
                /** @example {"body":{"order":7},"destinations":["orders"],"headers":{"x-tenant":"7"},"idempotency_key":"order-7","key":"acct-7"} */
                "application/x-ndjson": string;
            };
        };
        responses: {
            /** @description Redis has the message; or a line for each of a batch */
            202: {
                headers: {
                    /** @description `true`, if nothing was stored, because all of it had been stored before */
                    "Idempotent-Replayed"?: boolean;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Accepted"];
                    "application/x-ndjson": string;
                };
            };
            400: components["responses"]["IngestsBatchBadRequest"];
            401: components["responses"]["IngestsBatchUnauthorized"];
            403: components["responses"]["IngestsBatchForbidden"];
            404: components["responses"]["IngestsBatchNotFound"];
            408: components["responses"]["IngestsBatchRequestTimeout"];
            409: components["responses"]["IngestsBatchConflict"];
            413: components["responses"]["IngestsBatchPayloadTooLarge"];
            414: components["responses"]["IngestsBatchURITooLong"];
            415: components["responses"]["IngestsBatchUnsupportedMediaType"];
            422: components["responses"]["IngestsBatchUnprocessableEntity"];
            429: components["responses"]["IngestsBatchTooManyRequests"];
            500: components["responses"]["IngestsBatchInternalServerError"];
            503: components["responses"]["IngestsBatchServiceUnavailable"];
        };
    };
}
