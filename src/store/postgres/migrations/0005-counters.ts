/**
 * What is counted of a tenant's day, a row for each kind.
 */
import type { PostgresMigration } from "../migrate.ts";

export const counters: PostgresMigration = {
  name: "0005-counters",
  // What is counted of a tenant's day, each kind by itself and in whole numbers. A version before this one reads and writes
  // the messages in `daily_messages`, under the same lock. The two tables follow each other until that one goes.
  statements: [
    `LOCK TABLE daily_messages IN SHARE ROW EXCLUSIVE MODE`,
    `CREATE TABLE counters (
        tenant text NOT NULL,
        day bigint NOT NULL,
        kind text NOT NULL,
        count bigint NOT NULL,
        warned smallint NOT NULL,
        warned_cap bigint NOT NULL,
        PRIMARY KEY (tenant, day, kind)
      )`,
    `INSERT INTO counters SELECT tenant, day, 'messages', count, warned, warned_cap FROM daily_messages`,
    `CREATE FUNCTION follow_daily_messages() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$ BEGIN
        INSERT INTO counters VALUES (NEW.tenant, NEW.day, 'messages', NEW.count, NEW.warned, NEW.warned_cap)
        ON CONFLICT (tenant, day, kind) DO UPDATE
        SET count = excluded.count, warned = excluded.warned, warned_cap = excluded.warned_cap;
        RETURN NULL;
      END $$`,
    `CREATE FUNCTION follow_counters() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$ BEGIN
        IF TG_OP = 'DELETE' THEN
          DELETE FROM daily_messages WHERE tenant = OLD.tenant AND day = OLD.day;
          RETURN NULL;
        END IF;
        INSERT INTO daily_messages (tenant, day, count, warned, warned_cap)
        VALUES (NEW.tenant, NEW.day, NEW.count, NEW.warned, NEW.warned_cap)
        ON CONFLICT (tenant, day) DO UPDATE
        SET count = excluded.count, warned = excluded.warned, warned_cap = excluded.warned_cap;
        RETURN NULL;
      END $$`,
    `CREATE TRIGGER follow_daily_messages AFTER INSERT OR UPDATE ON daily_messages FOR EACH ROW
        WHEN (pg_trigger_depth() = 0) EXECUTE FUNCTION follow_daily_messages()`,
    `CREATE TRIGGER follow_counters AFTER INSERT OR UPDATE ON counters FOR EACH ROW
        WHEN (NEW.kind = 'messages' AND pg_trigger_depth() = 0) EXECUTE FUNCTION follow_counters()`,
    `CREATE TRIGGER follow_counters_away AFTER DELETE ON counters FOR EACH ROW
        WHEN (OLD.kind = 'messages') EXECUTE FUNCTION follow_counters()`,
  ],
};
