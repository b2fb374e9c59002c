-- Notifications among gateways (catalog/notifications.py).

-- The name of a channel, which no client is told.
CREATE FUNCTION pg_sluice.channel(about text) RETURNS text LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT 'pg_sluice_' || about || '_' || s.value FROM pg_sluice.setting s WHERE s.name = 'channel'
$$;

-- Send a notification with the transaction's commit. Not if clients have filled much of the queue, as one that listens
-- in an endless transaction can: a full queue fails the commit. The next heartbeat then finds out the news.
CREATE FUNCTION pg_sluice.say(about text) RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF pg_notification_queue_usage() < 0.5 THEN
        PERFORM pg_notify(pg_sluice.channel(about), '');
    END IF;
END $$;
